"""The agent: runs as the owner of the key, usually root, and signs user tokens for whoever asks on this host.

A client connects to a Unix socket and reads one line of JSON, `{"token": …}` or `{"error": …}`. The agent
never reads from a client: the kernel says who it is (SO_PEERCRED), and the answer fits the fresh socket's
buffer. So no client can make it wait, misread or remember anything, and one loop serves all.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from types import FrameType

from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import AccessDenied, ConfigurationError, MinislurmError
from minislurm.rpc import auth

#: struct sockaddr_un has 108 bytes for the path and its closing zero.
LONGEST_SOCKET_PATH = 107
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid
_LONGEST_ANSWER = 65536
_NAME_MEMORY_S = 60.0
_KNOWN_NAMES = 1024


def request_token(socket_path: str, timeout_s: float = 2.0) -> str:
    """A user token for this process' effective user. Raises AccessDenied; OSError where no agent answers."""
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect(_checked(socket_path))
        while len(answer) < _LONGEST_ANSWER and (part := connection.recv(4096)):
            answer += part
    try:
        message = json.loads(answer)
        if "token" in message:
            return str(message["token"])
        raise AccessDenied(f"the agent at {socket_path} gives no credential: {message['error']}")
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(errno.EPROTO, "the answer is not an agent's") from error


class Agent:
    """Listens at `configuration.agent_socket`; `serve` answers until `stop`."""

    def __init__(self, configuration: Configuration) -> None:
        """Raises ConfigurationError: no usable key, no place for the socket, or another agent serves it."""
        self._path = _checked(configuration.agent_socket)
        self._key = auth.load_key(configuration.key_file)
        self._cluster = configuration.cluster.name
        self._lifetime_s = configuration.auth.token_lifetime_s
        self._names: dict[int, tuple[float, str]] = {}
        self._stopped = False
        self._lock = _only_agent(self._path)
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._listener = _listen(self._path)

    def serve(self) -> None:
        """Answers clients until `stop`, then takes the socket away."""
        import selectors

        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while not self._stopped:
                selector.select()
                self._accept()
        os.unlink(self._path)
        self._listener.close()
        for descriptor in (self._wake_read, self._wake_write, self._lock):
            os.close(descriptor)

    def stop(self) -> None:
        """May be called from a signal handler or another thread."""
        self._stopped = True
        os.write(self._wake_write, b"\0")

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of descriptors or memory passes; spinning meanwhile would not help.
            if error.errno not in (
                errno.EMFILE,
                errno.ENFILE,
                errno.ENOBUFS,
                errno.ENOMEM,
                errno.ECONNABORTED,
            ):
                raise
            time.sleep(0.05)
            return
        with connection:
            connection.setblocking(False)
            try:
                connection.send(self._answer(connection))
            except OSError:
                pass  # the client has left

    def _answer(self, connection: socket.socket) -> bytes:
        _, user_id, group_id = _PEER.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        )
        if user_id < 0:
            return b'{"error":"the kernel does not say who calls"}\n'
        token = auth.user_token(
            self._key, self._cluster, user_id, group_id, self._name(user_id), self._lifetime_s
        )
        return json.dumps({"token": token}).encode() + b"\n"

    def _name(self, user_id: int) -> str:
        """The login name, remembered for a while: directory services can be slow."""
        now = time.monotonic()
        known = self._names.get(user_id)
        if known is not None and now < known[0]:
            return known[1]
        name = auth.user_name(user_id)
        if len(self._names) >= _KNOWN_NAMES:
            self._names.clear()
        self._names[user_id] = (now + _NAME_MEMORY_S, name)
        return name


def run(configuration: Configuration) -> None:
    """`minislurm agent`: serves until SIGTERM or SIGINT. Raises ConfigurationError."""
    agent = Agent(configuration)

    def end(_number: int, _frame: FrameType | None) -> None:
        agent.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    print(f"minislurm agent: signing for users of {configuration.agent_socket}", file=sys.stderr, flush=True)
    agent.serve()


def _checked(path: str) -> str:
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise ConfigurationError(
            f"{path}: a socket's path has at most {LONGEST_SOCKET_PATH} bytes; shorten auth.agent_socket"
        )
    return path


def _only_agent(path: str) -> int:
    """A locked file beside the socket, so that a second agent never takes the first one's socket away."""
    folder = os.path.dirname(path) or "."
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o755)
            os.chmod(folder, 0o755)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot make the agent's socket: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ConfigurationError(f"{path}: another agent serves this socket") from error
    return lock


def _listen(path: str) -> socket.socket:
    """The listening socket, open to every user. The lock is held, so what lies at `path` is a leftover."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.lexists(path):
            os.unlink(path)
        # Not chmod afterwards, which would follow a link that someone with rights on the folder puts there.
        umask = os.umask(0o111)
        try:
            listener.bind(path)
        finally:
            os.umask(umask)
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"{path}: cannot make the agent's socket: {error.strerror}") from error
    listener.setblocking(False)
    return listener


def main() -> int:
    """`python -m minislurm.rpc.agent --config FILE`."""
    import argparse

    from minislurm.domain.configuration_file import load

    parser = argparse.ArgumentParser(prog="minislurm agent")
    parser.add_argument("--config", default=None, metavar="FILE")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    options = parser.parse_args()
    try:
        run(load(options.config, options.overrides))
    except MinislurmError as error:
        print(f"minislurm agent: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
