"""GPUs, host facts and control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import JobId, RunNumber
from minislurm.domain.resources import GpuGroup
from minislurm.node import gpus
from minislurm.node.cgroups import Cgroups, find_cgroups, v2_mount
from minislurm.node.facts import find_facts, find_topology, own_address
from minislurm.node.gpus import NoGpus, NvmlProbe, gpu_type, grouped, make_probe
from minislurm.node.messages import RunKey
from minislurm.node.tracking import CgroupTracker
from tests.unit.node.node_harness import NodeHarness, is_alive, run


class NvmlError(Exception):
    pass


def nvml(*names: str | bytes, nvlinks: dict[int, list[int]] | None = None) -> SimpleNamespace:
    """The functions of the library that are used. `nvlinks`: by GPU the peer of each link, -1: a switch."""
    links = nvlinks or {}

    def link(handle: int, number: int) -> int:
        if number >= len(links.get(handle, [])):
            raise NvmlError("not supported")
        return links[handle][number]

    def bus(index: int) -> SimpleNamespace:
        return SimpleNamespace(busId=f"0000000{index // 4}:{index:02X}:00.0")

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_NVLINK_MAX_LINKS=18,
        NVML_NVLINK_DEVICE_TYPE_GPU=0,
        NVML_NVLINK_DEVICE_TYPE_SWITCH=2,
        nvmlDeviceGetCount=lambda: len(names),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: names[handle],
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=81920 << 20),
        nvmlDeviceGetCudaComputeCapability=lambda handle: (8, 6) if handle < 2 else (9, 0),
        nvmlDeviceGetPciInfo=bus,
        nvmlDeviceGetNvLinkState=lambda handle, number: int(link(handle, number) is not None),
        nvmlDeviceGetNvLinkRemoteDeviceType=lambda handle, number: 2 if link(handle, number) < 0 else 0,
        nvmlDeviceGetNvLinkRemotePciInfo=lambda handle, number: bus(link(handle, number)),
        nvmlDeviceGetTopologyCommonAncestor=lambda one, other: 50 if one // 2 != other // 2 else 20,
    )


def test_nvml_gpus_become_groups_by_type() -> None:
    probe = NvmlProbe(nvml(b"NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H200"))
    assert probe.groups() == (GpuGroup(2, "a100", 81920, "8.6"), GpuGroup(1, "h200", 81920, "9.0"))


def test_what_an_old_driver_does_not_tell_stays_unknown() -> None:
    library = nvml("Tesla T4")

    def fail(handle: int) -> None:
        raise NvmlError("not supported")

    library.nvmlDeviceGetMemoryInfo = library.nvmlDeviceGetPciInfo = fail
    assert NvmlProbe(library).groups() == (GpuGroup(1, "t4"),)
    assert NvmlProbe(library).links() == ()


def test_links_are_nvlinks_or_the_path_over_pcie() -> None:
    direct = nvml(*["A100"] * 4, nvlinks={0: [1, 1, 1, 1], 1: [0, 0, 0, 0]})
    numa = {"00000000:00:00.0": 0, "00000000:01:00.0": 0, "00000000:02:00.0": 1}
    assert NvmlProbe(direct, lambda bus: numa.get(bus, -1)).links() == (
        "N0 NV4 SYS SYS",
        "NV4 N0 SYS SYS",
        "SYS SYS N1 PXB",
        "SYS SYS PXB X",
    )
    switched = nvml("H100", "H100", nvlinks={0: [-1] * 18, 1: [-1] * 18})
    assert NvmlProbe(switched, lambda bus: 0).links() == ("N0 NV18", "NV18 N0")


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("Tesla V100-PCIE-16GB", "v100"),
        ("NVIDIA GeForce RTX 3090", "3090"),
        ("Tesla T4", "t4"),
        ("Titan", "titan"),
    ],
)
def test_types_are_what_users_write(product: str, name: str) -> None:
    assert gpu_type(product) == name


def test_equal_neighbours_form_a_group() -> None:
    one_by_one = [GpuGroup(1, name) for name in ("a", "a", "b", "a")]
    assert grouped(one_by_one) == (GpuGroup(2, "a"), GpuGroup(1, "b"), GpuGroup(1, "a"))
    unlike = (GpuGroup(1, "a", 40960), GpuGroup(1, "a", 81920))
    assert grouped(unlike) == unlike


def test_a_host_without_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert make_probe("auto").groups() == ()
    assert isinstance(make_probe("none"), NoGpus)
    with pytest.raises(ConfigurationError, match="gpu_probe"):
        gpus.make_probe("nvml")


def test_facts_of_this_host() -> None:
    facts = find_facts(NoGpus(), address="10.0.0.1", step_port=77)
    assert facts.cpus == os.cpu_count()
    assert facts.memory_mib > 100
    assert facts.boot_time < facts.daemon_start_time
    assert (facts.address, facts.step_port, facts.gpus) == ("10.0.0.1", 77, ())


def test_where_the_node_stands(tmp_path: Path) -> None:
    assert find_topology("", "n1") == ""
    assert find_topology("zone=a/rack={node}", "n1") == "zone=a/rack=n1"
    (tmp_path / "n1").write_text(" rack=r7 \n# by the data centre\n")
    assert find_topology(f"file:{tmp_path}/{{node}}", "n1") == "rack=r7"
    for setting in (f"file:{tmp_path}/nosuch", "rack 7"):
        with pytest.raises(ConfigurationError, match=r"node\.topology"):
            find_topology(setting, "n1")


def test_the_own_address_is_where_the_controller_sees_us() -> None:
    assert own_address("10.1.2.3", "127.0.0.1", 1) == "10.1.2.3"
    assert own_address("0.0.0.0", "127.0.0.1", 1) == "127.0.0.1"


def test_the_forker_is_small() -> None:
    program = (
        "import sys; sys.path.append(sys.argv[1]); import minislurm.node.forker; "
        "print(sorted({name.split('.')[0] for name in sys.modules}))"
    )
    root = str(Path(gpus.__file__).parents[2])
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, root], capture_output=True, text=True, check=True
    ).stdout
    for heavy in ("grpc", "google", "asyncio", "dataclasses", "typing", "threading", "subprocess", "logging"):
        assert f"'{heavy}'" not in loaded


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    try:
        found = find_cgroups("cgroup", f"test.{os.getpid()}")
    except ConfigurationError as error:
        pytest.skip(f"no writable cgroup v2 tree: {error}")
    assert found is not None
    yield found
    found.remove()
    assert not os.path.exists(found.base)


def test_everything_in_a_group_is_killed_and_the_group_removed(cgroups: Cgroups) -> None:
    key = RunKey(JobId(1), RunNumber(1))
    path = cgroups.make_step(key, "batch")
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"echo 0 > {path}/cgroup.procs; setsid sleep 1000 & echo in; wait"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    tracker = CgroupTracker(path)
    assert process.pid in tracker.pids()
    assert not tracker.remove()
    tracker.kill()
    assert process.wait(10) == -9
    process.stdout.close()
    while not tracker.remove():
        os.sched_yield()
    assert cgroups.remove_run(key)


def test_groups_of_unknown_runs_are_ended(cgroups: Cgroups) -> None:
    known, unknown = RunKey(JobId(1), RunNumber(1)), RunKey(JobId(2), RunNumber(1))
    cgroups.make_step(known, "batch")
    cgroups.make_step(unknown, "0")
    cgroups.remove_others({known})
    assert os.path.isdir(cgroups.run_group(known))
    assert not os.path.exists(cgroups.run_group(unknown))
    CgroupTracker(f"{cgroups.run_group(known)}/batch").remove()
    cgroups.remove_run(known)


def test_a_job_in_a_group_leaves_neither_process_nor_group(tmp_path: Path, cgroups: Cgroups) -> None:
    script = "setsid sleep 1000 & echo $! > orphan; cat /proc/self/cgroup; exit 6"

    async def test() -> None:
        async with NodeHarness(tmp_path, tracking="cgroup") as node:
            node.prepare(1, script)
            exited = await node.controller.report(1, "batch_exited")
            assert exited.exit_code == 6
            await node.is_clean(1)
            assert "/job_1_1/batch" in node.read("1.out")
            assert not is_alive(await node.pid_in("orphan"))
            assert not [name for name in os.listdir(cgroups.base) if name.startswith("job_")]
            # A cancelled one, with what ignores TERM.
            node.prepare(2, "trap '' TERM; echo up; sleep 1000; sleep 1000")
            await node.has("2.out", "up")
            node.end(2, kill_wait_s=0.1)
            exited = await node.controller.report(2, "batch_exited")
            assert exited.exit_signal == 9

    run(test())


def test_descent_is_tracked_where_groups_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_cgroups("process", "x") is None
    monkeypatch.setattr("minislurm.node.cgroups.v2_mount", lambda: None)
    assert find_cgroups("auto", "x") is None
    with pytest.raises(ConfigurationError, match="tracking"):
        find_cgroups("cgroup", "x")


def test_the_v2_tree_is_found() -> None:
    mount = v2_mount()
    if mount is None:
        pytest.skip("no cgroup v2 tree is mounted")
    assert os.path.exists(f"{mount}/cgroup.procs")
