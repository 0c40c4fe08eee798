"""From the options of `minislurm up` to a configuration."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from minislurm.cli.local_cluster import ClusterError, LocalCluster
from minislurm.cli.local_plan import Plan, configuration_text, is_free, racks
from minislurm.domain.configuration import Configuration
from minislurm.domain.configuration_file import parse
from minislurm.domain.errors import ConfigurationError, UsageError
from minislurm.domain.ids import NodeName
from minislurm.domain.resources import GpuGroup
from minislurm.rpc.agent import LONGEST_SOCKET_PATH


def configuration_of(plan: Plan) -> Configuration:
    return parse(configuration_text(plan, Path("/d"), "/d/run/agent.sock", 7000))


def test_the_cluster_that_was_asked_for() -> None:
    configuration = configuration_of(Plan(nodes=3, cpus=2, memory="1.5G", gpus=4, gpu_type="a100", racks=2))
    assert [spec.name for spec in configuration.nodes] == ["n1", "n2", "n3"]
    assert {(spec.cpus, spec.memory_mib, spec.gpus) for spec in configuration.nodes} == {
        (2, 1536, (GpuGroup(4, "a100"),))
    }
    assert [(domain.name, domain.nodes) for domain in configuration.topology] == [
        ("rack1", ("n1",)),
        ("rack2", ("n2", "n3")),
    ]
    assert configuration.default_partition is not None
    assert configuration.default_partition.name == "batch"
    assert configuration.default_partition.nodes == ("n1", "n2", "n3")
    assert configuration.cluster.controller_port == 7000
    assert configuration.cluster.state_dir == "/d/state"
    assert configuration.node.spool_dir == "/d/spool/{node}"


def test_overrides_are_in_the_file() -> None:
    configuration = configuration_of(Plan(overrides=("timers.kill_wait_s=2", "partitions.debug.nodes=n1")))
    assert configuration.timers.kill_wait_s == 2.0
    assert configuration.partitions[1].nodes == ("n1",)
    with pytest.raises(ConfigurationError, match=r"--set timers\.x=1: unknown key"):
        configuration_of(Plan(overrides=("timers.x=1",)))


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [5]), (2, [2, 3]), (5, [1] * 5), (9, [1] * 5)])
def test_racks_hold_every_node_once(count: int, sizes: list[int]) -> None:
    names = tuple(NodeName(f"n{number}") for number in range(1, 6))
    domains = racks(names, count)
    assert [len(domain.nodes) for domain in domains] == sizes
    if domains:
        assert tuple(name for domain in domains for name in domain.nodes) == names


def test_what_is_left_out_is_as_before() -> None:
    before = Plan(nodes=8, overrides=("timers.kill_wait_s=2", "jobs.requeue=false"))
    unchanged = dict.fromkeys(("nodes", "cpus", "memory", "gpus", "gpu_type", "racks"))
    after = before.changed(**unchanged | {"racks": 4}, overrides=("timers.kill_wait_s=5",))  # type: ignore[arg-type]
    assert after == Plan(nodes=8, racks=4, overrides=("timers.kill_wait_s=5", "jobs.requeue=false"))
    assert Plan.from_json(after.to_json()) == after


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(nodes=0), "--nodes=0: must be from 1 to"),
        (Plan(cpus=0), "--cpus=0: must be 1 or more"),
        (Plan(memory="lots"), "--memory=lots: must be a size such as"),
        (Plan(gpus=-1), "--gpus=-1: must be 0 or more"),
        (Plan(gpu_type="8"), "--gpu-type=8: must be a word"),
        (Plan(racks=-1), "--racks=-1"),
    ],
)
def test_impossible_options_are_named(plan: Plan, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan.check()


def test_a_port_in_use_is_seen() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as gRPC does
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not is_free(listener.getsockname()[1])
        port = listener.getsockname()[1]
    assert is_free(port)


def test_prepare_makes_the_folder_once(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "c")
    first = cluster.prepare(Plan(nodes=2))
    assert Path(first.key_file).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "c" / "state").stat().st_mode & 0o777 == 0o700
    key = Path(first.key_file).read_bytes()
    again = LocalCluster(tmp_path / "c").prepare(Plan(nodes=2))
    assert again == first
    assert Path(first.key_file).read_bytes() == key
    larger = cluster.prepare(Plan(nodes=3))
    assert len(larger.nodes) == 3
    assert larger.cluster.controller_port == first.cluster.controller_port


def test_changes_by_hand_stay(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "c")
    cluster.prepare(Plan(nodes=2))
    text = cluster.configuration_path.read_text().replace("kill_wait_s = 30.0", "kill_wait_s = 3.5")
    cluster.configuration_path.write_text(text)
    assert cluster.prepare(Plan(nodes=2)).timers.kill_wait_s == 3.5


def test_a_stranger_on_our_port_makes_us_move(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "c")
    port = cluster.prepare(Plan(nodes=2)).cluster.controller_port
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        moved = cluster.prepare(Plan(nodes=2))
    assert moved.cluster.controller_port != port
    assert cluster.configuration().cluster.controller_port == moved.cluster.controller_port


def test_a_port_that_was_asked_for_is_not_changed(tmp_path: Path) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        plan = Plan(nodes=2, overrides=(f"cluster.controller_port={port}",))
        with pytest.raises(ClusterError, match=f"another program has taken port {port}"):
            LocalCluster(tmp_path / "c").prepare(plan)


def test_a_socket_path_that_is_too_long_is_moved(tmp_path: Path) -> None:
    configuration = LocalCluster(tmp_path / ("x" * 100)).prepare(Plan(nodes=1))
    assert len(os.fsencode(configuration.agent_socket)) <= LONGEST_SOCKET_PATH
    other = LocalCluster(tmp_path / ("y" * 100)).prepare(Plan(nodes=1))
    assert other.agent_socket != configuration.agent_socket


def test_no_cluster_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"there is no cluster in .*; `minislurm up` makes one"):
        LocalCluster(tmp_path / "c").configuration()


def test_an_unknown_daemon_is_named_with_those_that_exist(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "c")
    configuration = cluster.prepare(Plan(nodes=2))
    with pytest.raises(UsageError, match=r"no daemon n3 in this cluster \(there are controller, .*n1, n2\)"):
        cluster.daemon(configuration, "n3")
