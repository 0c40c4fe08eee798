"""The process that forks shepherds: small, single-threaded, without gRPC, everything loaded beforehand.

Forking the daemon itself would be unsafe (gRPC has threads) and slow (fork copies page tables). It
forks one for each descriptor that it gets through the daemon's socket: the shepherd's end of a socket pair,
through which the daemon then says what to do. It ends when the daemon does; shepherds are its children and
become init's then.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys

from minislurm.node.shepherd import Shepherd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
    for channel in _channels(connection):
        if os.fork() == 0:
            _be_shepherd(connection, channel, libc)
        channel.close()


def _channels(connection: socket.socket) -> Iterator[socket.socket]:
    """The shepherds' sockets, until the daemon is gone."""
    while True:
        try:
            data, received, _, _ = socket.recv_fds(connection, 4096, 1)
        except OSError:
            return
        if not data:
            return
        for descriptor in received:
            # recv_fds ignores MSG_CMSG_CLOEXEC; no job may get hold of a shepherd's socket.
            os.set_inheritable(descriptor, False)
            yield socket.socket(fileno=descriptor)


def _be_shepherd(connection: socket.socket, channel: socket.socket, libc: ctypes.CDLL) -> None:
    """Never returns."""
    code = 1
    try:
        connection.close()
        os.setsid()
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_PR_SET_NAME, b"minislurm-step", 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        Shepherd(channel).run()
        code = 0
    except BaseException as error:
        sys.stderr.write(f"minislurmd: shepherd {os.getpid()}: {error!r}\n")
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
