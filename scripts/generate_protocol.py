"""Makes minislurm/rpc/gen from protos/. With --check: exit 1 if what is there is stale.

The same code runs in the build hook (scripts/build_hook.py), so a wheel never carries stale code.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "minislurm" / "rpc" / "gen"


def generate(target: Path) -> None:
    """Writes *_pb2.py, *_pb2.pyi and *_pb2_grpc.py for every proto into `target`."""
    import grpc_tools
    from grpc_tools import protoc

    sources = sorted((ROOT / "protos").glob("*.proto"))
    includes = Path(grpc_tools.__file__).parent / "_proto"
    target.mkdir(parents=True, exist_ok=True)
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={ROOT / 'protos'}",
            f"--proto_path={includes}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            f"--grpc_python_out={target}",
            *map(str, sources),
        ]
    )
    if status:
        raise SystemExit(f"protoc failed with status {status}")
    for path in target.glob("*_pb2*.py*"):
        # protoc writes imports for a flat sys.path; the files live in a package.
        text = re.sub(r"^import (\w+_pb2)", r"from minislurm.rpc.gen import \1", path.read_text(), flags=re.M)
        path.write_text(text)
        if path.name.endswith("_pb2_grpc.py") and "Servicer" not in text:
            path.unlink()  # a file without services


def stale_files() -> list[str]:
    """Names of generated files that differ from what protos/ gives."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        wanted = {p.name: p.read_bytes() for p in fresh.iterdir()}
    present = {p.name: p.read_bytes() for p in TARGET.glob("*_pb2*")}
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))


def main() -> None:
    if "--check" in sys.argv[1:]:
        stale = stale_files()
        if stale:
            raise SystemExit(f"stale generated code: {', '.join(stale)}; run scripts/generate_protocol")
        return
    generate(TARGET)


if __name__ == "__main__":
    main()
