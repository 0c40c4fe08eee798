"""`minislurmctld`: the controller daemon."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys

from minislurm.domain import configuration_file, version
from minislurm.domain.errors import MinislurmError


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="minislurmctld", description="The minislurm controller daemon.")
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: MINISLURM_CONF, /etc)")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="override a configuration key"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log more")
    parser.add_argument("-V", "--version", action="version", version=f"minislurm {version.VERSION}")
    options = parser.parse_args(arguments)
    gc.disable()  # until all is loaded (daemon.py)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    try:
        configuration = configuration_file.load(options.config, options.set)
        from minislurm.controller.daemon import serve

        asyncio.run(serve(configuration))
    except MinislurmError as error:
        sys.exit(f"minislurmctld: error: {error}")


if __name__ == "__main__":
    main()
