#!/usr/bin/env python3
"""Plays random scenarios of preemption and judges each of them (tests/sim/churn.py says by which laws).

Prints what was seen, and the seeds that broke a law; ends with 1 if any did. Same seeds, same scenarios.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from msgspec import to_builtins

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.sim.churn import Tally, play


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", type=int, default=10_000, help="so many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="from this seed on")
    options = parser.parse_args()
    total, broken, begun = Tally(), 0, time.monotonic()
    for seed in range(options.first, options.first + options.scenarios):
        try:
            total.add(play(seed))
        except AssertionError as error:
            broken += 1
            print(error, file=sys.stderr)
    for name, value in to_builtins(total).items():
        print(f"{name:12} {value:14,.0f}")
    print(f"{'laws broken':12} {broken:14,d}   in {time.monotonic() - begun:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
