"""minislurmd, the node daemon."""

from __future__ import annotations

import argparse
import os
import sys

from minislurm.node.launcher import Launcher


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    launcher = Launcher()
    # Before gRPC is loaded, and while this process is still small.
    launcher.start()
    from minislurm.node.service import run_daemon

    sys.exit(run_daemon(options.config, options.set, options.node, launcher, verbose=options.verbose))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minislurmd", description="The node daemon of minislurm: runs jobs on this host."
    )
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: MINISLURM_CONF)")
    parser.add_argument(
        "--node",
        metavar="NAME",
        default=os.uname().nodename.partition(".")[0],
        help="name of this node in the configuration (default: %(default)s)",
    )
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="override a configuration key"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say more")
    return parser


if __name__ == "__main__":
    main()
