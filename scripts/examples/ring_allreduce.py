"""Ring all-reduce between the tasks of a step, with the standard library alone. Run it under srun.

Each of W ranks holds a vector, cut into W parts. In W - 1 rounds each rank passes a part to its right and
adds what comes from its left; then it holds one part of the sum. W - 1 further rounds pass the sums around
(Patarasuk and Yuan, 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations", section 3).
Exits 1 if the result is not what arithmetic says.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from array import array
from pathlib import Path

LENGTH = 1 << 16
PATIENCE_S = 60.0


def main() -> int:
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    node = os.environ["SLURMD_NODENAME"]
    vector = array("q", (element * (rank + 1) for element in range(LENGTH)))
    started = time.monotonic()
    if world > 1:
        left, right = join_ring(rank, world)
        with left, right:
            all_reduce(vector, rank, world, left, right)
    total = world * (world + 1) // 2
    wrong = sum(value != element * total for element, value in enumerate(vector))
    elapsed_ms = (time.monotonic() - started) * 1000
    if wrong:
        print(f"rank {rank} of {world} on {node}: {wrong} of {LENGTH} sums are wrong", file=sys.stderr)
        return 1
    print(f"rank {rank} of {world} on {node}: {LENGTH} sums are right ({elapsed_ms:.0f} ms)", flush=True)
    return 0


def all_reduce(vector: array[int], rank: int, world: int, left: socket.socket, right: socket.socket) -> None:
    """Turns every rank's vector into the sum of all."""
    bounds = [len(vector) * part // world for part in range(world + 1)]
    parts = [slice(bounds[part], bounds[part + 1]) for part in range(world)]
    for turn in range(world - 1):
        mine, theirs = parts[(rank - turn) % world], parts[(rank - turn - 1) % world]
        received = exchange(vector[mine], theirs.stop - theirs.start, left, right)
        vector[theirs] = array("q", map(sum, zip(vector[theirs], received, strict=True)))
    for turn in range(world - 1):
        mine, theirs = parts[(rank + 1 - turn) % world], parts[(rank - turn) % world]
        vector[theirs] = exchange(vector[mine], theirs.stop - theirs.start, left, right)


def exchange(outgoing: array[int], incoming: int, left: socket.socket, right: socket.socket) -> array[int]:
    """Sends to the right while receiving from the left: else all could wait for each other."""
    sender = threading.Thread(target=right.sendall, args=(outgoing.tobytes(),))
    sender.start()
    result = array("q")
    missing = incoming * result.itemsize
    data = bytearray()
    while missing:
        piece = left.recv(min(missing, 1 << 16))
        if not piece:
            raise ConnectionError("the left neighbour has left")
        data += piece
        missing -= len(piece)
    sender.join()
    result.frombytes(bytes(data))
    return result


def join_ring(rank: int, world: int) -> tuple[socket.socket, socket.socket]:
    """Connections from the left and to the right neighbour; they meet through the work directory."""
    # Named after the run, too: ranks must not take what an earlier run of the job left for their own.
    run = "-".join(
        os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    )
    folder = Path(f".ring-{run}")
    folder.mkdir(exist_ok=True)
    with socket.create_server((own_address(), 0)) as server:
        server.settimeout(PATIENCE_S)
        host, port = server.getsockname()[:2]
        place = folder / str(rank)
        place.with_suffix(".new").write_text(f"{host} {port}")
        place.with_suffix(".new").rename(place)
        right = socket.create_connection(address_of(folder / str((rank + 1) % world)), timeout=PATIENCE_S)
        left, _ = server.accept()
        left.settimeout(PATIENCE_S)
    return left, right


def own_address() -> str:
    """Where this node can be reached; loopback where its name is one that only the cluster knows."""
    try:
        return socket.gethostbyname(os.environ["SLURMD_NODENAME"])
    except OSError:
        return "127.0.0.1"


def address_of(place: Path) -> tuple[str, int]:
    deadline = time.monotonic() + PATIENCE_S
    while not place.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no neighbour has written {place}")
        time.sleep(0.01)
    host, port = place.read_text().split()
    return host, int(port)


if __name__ == "__main__":
    sys.exit(main())
