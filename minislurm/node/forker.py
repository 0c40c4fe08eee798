"""The process that forks shepherds: small, single-threaded, without gRPC, everything loaded beforehand.

Forking the daemon itself would be unsafe (gRPC has threads) and slow (fork copies page tables). It reads
orders from the daemon's socket, each with one end of a socket pair for the shepherd, and ends when the daemon
does; shepherds are its children and become init's then.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import sys

from minislurm.node import frames
from minislurm.node.shepherd import Shepherd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from minislurm.node.orders import ShepherdOrder

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """`argv[1]`: the descriptor of the socket to the daemon."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # The kernel buries shepherds by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, b"minislurm-fork", 0, 0, 0)
    # Objects that exist now are never looked at again by the collector, so their pages stay shared.
    gc.collect()
    gc.freeze()
    gc.disable()
    for order, channel in _orders(connection):
        if os.fork() == 0:
            _be_shepherd(connection, order, channel, libc)
        channel.close()


def _orders(connection: socket.socket) -> Iterator[tuple[ShepherdOrder, socket.socket]]:
    """(ShepherdOrder, the shepherd's socket), until the daemon is gone."""
    buffer = bytearray()
    descriptors: list[int] = []
    while True:
        try:
            data, received, _, _ = socket.recv_fds(connection, 262144, 16)
        except OSError:
            return
        if not data:
            return
        buffer += data
        for descriptor in received:
            # recv_fds ignores MSG_CMSG_CLOEXEC; no job may get hold of a shepherd's socket.
            os.set_inheritable(descriptor, False)
        descriptors += received
        for _, payload in frames.split_frames(buffer):
            order: ShepherdOrder = json.loads(payload)
            yield order, socket.socket(fileno=descriptors.pop(0))


def _be_shepherd(
    connection: socket.socket, order: ShepherdOrder, channel: socket.socket, libc: ctypes.CDLL
) -> None:
    """Never returns."""
    code = 1
    try:
        connection.close()
        os.setsid()
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_PR_SET_NAME, b"minislurm-step", 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        Shepherd(order, channel).run()
        code = 0
    except BaseException as error:
        sys.stderr.write(f"minislurmd: shepherd of {order['job_id']}.{order['prefix']}: {error!r}\n")
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
