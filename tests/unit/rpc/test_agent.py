"""The agent: tells users apart by what the kernel says, whatever a client does."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from minislurm.domain.configuration import AuthSection, ClusterSection, Configuration
from minislurm.domain.errors import AccessDenied, ConfigurationError
from minislurm.rpc import agent, auth

NOBODY = 65534


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Short enough for a socket, and open to other users."""
    import shutil
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="msa"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def configuration(folder: Path) -> Configuration:
    auth.make_key(str(folder / "auth.key"))
    return Configuration(cluster=ClusterSection(name="farm", state_dir=str(folder)))


@pytest.fixture
def running(configuration: Configuration) -> Iterator[agent.Agent]:
    served = agent.Agent(configuration)
    thread = threading.Thread(target=served.serve)
    thread.start()
    yield served
    served.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert not os.path.exists(configuration.agent_socket)


def verifier(configuration: Configuration) -> auth.Verifier:
    return auth.Verifier(auth.load_key(configuration.key_file), "farm")


@pytest.mark.usefixtures("running")
def test_it_signs_for_whoever_asks(configuration: Configuration) -> None:
    caller = verifier(configuration).verify_user(agent.request_token(configuration.agent_socket))
    assert (caller.user_id, caller.group_id) == (os.geteuid(), os.getegid())
    assert caller.user_name == auth.user_name(os.geteuid())


@pytest.mark.usefixtures("running")
def test_everyone_can_reach_it_and_nobody_replace_it(configuration: Configuration) -> None:
    path = Path(configuration.agent_socket)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


@pytest.mark.usefixtures("running")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_gets_a_token_for_itself_only(configuration: Configuration, folder: Path) -> None:
    path = folder / "minislurm.toml"
    path.write_text(f'[cluster]\nname = "farm"\nstate_dir = "{folder}"\n')
    code = f"""
import os
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
import socket
try:
    open({str(folder / "auth.key")!r})
    raise SystemExit("nobody can read the key")
except PermissionError:
    pass
from minislurm.domain.configuration_file import load
from minislurm.rpc import auth
print(auth.credential(load({str(path)!r})))
"""
    # This user may not be allowed to read the source tree: the modules are loaded before.
    modules = ["domain.configuration_file", "domain.hostlist", "rpc.auth", "rpc.agent"]
    preload = "".join(f"import minislurm.{module}\n" for module in modules)
    preload += f"import {'tomllib' if sys.version_info >= (3, 11) else 'tomli'}\n"
    done = subprocess.run([sys.executable, "-c", preload + code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    caller = verifier(configuration).verify_user(done.stdout.strip())
    assert caller.user_id == NOBODY
    assert caller.group_id == NOBODY


@pytest.mark.usefixtures("running")
def test_clients_that_misbehave_do_not_matter(configuration: Configuration) -> None:
    idle = []
    for number in range(100):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(5)
        client.connect(configuration.agent_socket)
        if number % 3 == 0:
            client.close()  # leaves at once
        elif number % 3 == 1:
            try:
                client.sendall(b'{"user_id": 0}\n' * 1000)  # lies, at length
            except OSError:
                pass
            idle.append(client)
        else:
            idle.append(client)  # never reads
    caller = verifier(configuration).verify_user(agent.request_token(configuration.agent_socket))
    assert caller.user_id == os.geteuid()
    for client in idle:
        client.close()


@pytest.mark.usefixtures("running")
def test_a_flood_is_served_and_leaves_no_descriptors(configuration: Configuration) -> None:
    before = len(os.listdir("/proc/self/fd"))
    tokens: list[str] = []

    def ask() -> None:
        tokens.extend(agent.request_token(configuration.agent_socket, timeout_s=20) for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 400
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@pytest.mark.usefixtures("running")
def test_there_is_one_agent_for_a_socket(configuration: Configuration) -> None:
    with pytest.raises(ConfigurationError, match="another agent serves this socket"):
        agent.Agent(configuration)
    assert agent.request_token(configuration.agent_socket)


def test_what_a_killed_agent_left_is_replaced(configuration: Configuration) -> None:
    path = Path(configuration.agent_socket)
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as leftover:
        leftover.bind(str(path))
    with pytest.raises(OSError, match="refused"):
        agent.request_token(str(path))
    served = agent.Agent(configuration)
    thread = threading.Thread(target=served.serve)
    thread.start()
    try:
        assert agent.request_token(str(path))
    finally:
        served.stop()
        thread.join(10)


def test_no_agent_without_a_safe_key(configuration: Configuration) -> None:
    os.chmod(configuration.key_file, 0o644)
    with pytest.raises(ConfigurationError, match="must be 0600"):
        agent.Agent(configuration)


def test_a_path_too_long_for_a_socket_is_named(folder: Path) -> None:
    long = f"{folder}/{'x' * 120}/agent.sock"
    configuration = Configuration(auth=AuthSection(key_file=str(folder / "k"), agent_socket=long))
    with pytest.raises(ConfigurationError, match="at most 107 bytes"):
        agent.Agent(configuration)


def test_an_answer_that_is_none(folder: Path) -> None:
    path = str(folder / "fake.sock")
    answers = [b"", b"nonsense", b"[]", b'{"error": "no"}', b'{"x": 1}']
    with socket.socket(socket.AF_UNIX) as fake:
        fake.bind(path)
        fake.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = fake.accept()
                with connection:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        for answer in answers:
            with pytest.raises(AccessDenied if b"error" in answer else OSError):
                agent.request_token(path)
        thread.join()


def test_it_is_small(configuration: Configuration, folder: Path) -> None:
    """As its own process: it ends on SIGTERM, takes its socket away, and has loaded nothing heavy."""
    path = folder / "minislurm.toml"
    path.write_text(f'[cluster]\nname = "farm"\nstate_dir = "{folder}"\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "minislurm.rpc.agent", "--config", str(path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "signing for users of" in process.stderr.readline()
        caller = verifier(configuration).verify_user(agent.request_token(configuration.agent_socket))
        assert caller.user_id == os.geteuid()
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident_kib = int(status.split("VmRSS:")[1].split()[0])
        assert resident_kib < 40 * 1024
        process.terminate()
        assert process.wait(10) == 0
        assert not os.path.exists(configuration.agent_socket)
    finally:
        process.kill()
        process.communicate()
