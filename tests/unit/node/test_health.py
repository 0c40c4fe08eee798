"""Is the node fit for runs? The program, the disk, the clock, the GPUs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minislurm.domain.configuration import NodeSection
from minislurm.node.gpu_health import NoGpuHealth, NvmlHealth, make_gpu_health
from minislurm.node.health import Health
from minislurm.rpc.gen import node_pb2
from tests.unit.node.node_harness import NodeHarness, run, until


class Gpus:
    def __init__(self, *problems: str) -> None:
        self.now = list(problems)

    def problems(self) -> list[str]:
        return self.now


def a_health(folder: Path, gpus: Gpus | NoGpuHealth | None = None, **settings: Any) -> Health:
    """Its `said` lists what it reported."""
    settings = {"health_min_free_mib": 0, **settings}
    said: list[str] = []
    health = Health(
        NodeSection(**settings),
        (str(folder),),
        gpus or NoGpuHealth(),
        occupancy=lambda: health.used,  # type: ignore[attr-defined]
        on_change=said.append,
    )
    health.said = said  # type: ignore[attr-defined]
    health.used = (0, 8)  # type: ignore[attr-defined]
    return health


def checked(health: Health) -> list[str]:
    asyncio.run(health.check())
    return health.said  # type: ignore[attr-defined,no-any-return]


def program(folder: Path, body: str) -> str:
    path = folder / "check"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_all_is_well(tmp_path: Path) -> None:
    health = a_health(tmp_path)
    assert checked(health) == [""], "said once"
    assert checked(health) == [""]
    assert health.problem() == ""


def test_the_programs_last_line_says_what_is_wrong(tmp_path: Path) -> None:
    health = a_health(
        tmp_path, health_check_program=program(tmp_path, "echo looking; echo fan 3 stands; exit 2")
    )
    assert checked(health) == ["fan 3 stands (check)"]
    program(tmp_path, "exit 0")
    assert checked(health)[-1] == ""


def test_a_program_that_hangs_or_is_not_there_has_failed(tmp_path: Path) -> None:
    hangs = a_health(
        tmp_path, health_check_program=program(tmp_path, "exec sleep 60"), health_check_timeout_s=0.2
    )
    assert "no end after 0.2 s" in checked(hangs)[0]
    missing = a_health(tmp_path, health_check_program="/nowhere/check")
    assert "No such file" in checked(missing)[0]


@pytest.mark.parametrize(
    ("states", "used", "asked"),
    [
        ("any", 8, True),
        ("idle", 0, True),
        ("idle", 1, False),
        ("mixed", 1, True),
        ("mixed", 8, False),
        ("alloc", 8, True),
        ("idle,alloc", 8, True),
        ("idle,alloc", 3, False),
    ],
)
def test_when_the_program_is_asked(tmp_path: Path, states: str, used: int, asked: bool) -> None:
    body = program(tmp_path, f"touch {tmp_path}/asked")
    health = a_health(tmp_path, health_check_program=body, health_check_states=states)
    health.used = (used, 8)  # type: ignore[attr-defined]
    checked(health)
    assert (tmp_path / "asked").exists() is asked


def test_start_only_is_once(tmp_path: Path) -> None:
    body = program(tmp_path, f"echo x >> {tmp_path}/asked")
    health = a_health(tmp_path, health_check_program=body, health_check_states="start_only")
    checked(health)
    checked(health)
    assert (tmp_path / "asked").read_text() == "x\n"


def test_a_full_disk_is_seen_at_once(tmp_path: Path) -> None:
    health = a_health(tmp_path, health_min_free_mib=1 << 40)
    assert "MiB free" in health.problem(), "without waiting for the next check"
    assert "MiB free" in checked(health)[0]
    gone = a_health(tmp_path / "gone", health_min_free_mib=1)
    assert "No such file" in gone.problem()


@pytest.mark.parametrize(
    ("earliest", "controller", "latest", "offset"),
    [(100.0, 101.0, 102.0, 0), (100.0, 50.0, 100.1, 50), (100.0, 160.1, 100.1, 60), (100.0, 131.0, 105.0, 0)],
)
def test_the_clock(tmp_path: Path, earliest: float, controller: float, latest: float, offset: int) -> None:
    health = a_health(tmp_path, health_max_clock_offset_s=30.0)
    health.told_time(earliest, controller, latest)
    assert health.problem() == (f"the clock differs from the controller's by {offset} s" if offset else "")


def test_nothing_is_checked_with_an_interval_of_zero(tmp_path: Path) -> None:
    health = a_health(tmp_path, health_check_interval_s=0.0, health_min_free_mib=1 << 40)
    assert health.problem() == ""


def test_gpus_that_are_unwell(tmp_path: Path) -> None:
    gpus = Gpus("GPU 0: XID 79", "GPU 1: XID 79")
    health = a_health(tmp_path, gpus)
    assert checked(health) == ["GPU 0: XID 79; GPU 1: XID 79"]
    assert checked(a_health(tmp_path, gpus, health_check_gpus=False)) == [""]


# NVML


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


NOT_SUPPORTED, TIMEOUT, LOST = 3, 10, 15


def nvml(count: int = 2, xids: list[tuple[int, int]] | None = None, **changes: Any) -> SimpleNamespace:
    """`xids`: (GPU, number), as they come. `changes`: by function, what it answers for GPU 1."""
    waiting = list(xids or [])

    def wait(events: object, timeout_ms: int) -> SimpleNamespace:
        if not waiting:
            raise NvmlError(TIMEOUT)
        index, number = waiting.pop(0)
        return SimpleNamespace(device=index, eventData=number)

    def answer(name: str, well: Any) -> Any:
        def ask(handle: int, *_: Any) -> Any:
            value = changes.get(name, well) if handle == 1 else well
            if isinstance(value, Exception):
                raise value
            return value

        return ask

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_ERROR_GPU_IS_LOST=LOST,
        NVML_ERROR_RESET_REQUIRED=16,
        NVML_MEMORY_ERROR_TYPE_UNCORRECTED=1,
        NVML_VOLATILE_ECC=0,
        NVML_TEMPERATURE_GPU=0,
        nvmlEventTypeXidCriticalError=8,
        nvmlEventSetCreate=lambda: "events",
        nvmlDeviceRegisterEvents=lambda handle, kinds, events: None,
        nvmlEventSetWait_v2=wait,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        nvmlDeviceGetTotalEccErrors=answer("ecc", 0),
        nvmlDeviceGetRemappedRows=answer("rows", (1, 0, 0, 0)),
        nvmlDeviceGetRetiredPagesPendingStatus=answer("pages", 0),
        nvmlDeviceGetCurrentClocksThrottleReasons=answer("slow", 0x24),
        nvmlDeviceGetTemperature=answer("heat", 50),
    )


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, []),
        ({"ecc": 2}, ["GPU 1: 2 uncorrected ECC errors"]),
        ({"rows": (0, 0, 0, 1)}, ["GPU 1: a row could not be remapped"]),
        ({"rows": (0, 1, 1, 0)}, ["GPU 1: rows wait to be remapped, it needs a reset"]),
        ({"pages": 1}, ["GPU 1: pages wait to be retired, it needs a reset"]),
        ({"slow": 0x40, "heat": 97}, ["GPU 1: slowed down by heat (97 °C)"]),
        ({"ecc": NvmlError(NOT_SUPPORTED), "rows": NvmlError(NOT_SUPPORTED)}, []),
        ({"slow": NvmlError(LOST)}, ["GPU 1: error 15"]),
    ],
)
def test_what_nvml_says(changes: dict[str, Any], problems: list[str]) -> None:
    assert NvmlHealth(nvml(**changes)).problems() == problems


def test_an_xid_error_stays_and_a_programs_own_is_none() -> None:
    health = NvmlHealth(nvml(xids=[(0, 31), (1, 79), (0, 43)]))
    assert health.problems() == ["GPU 1: XID 79"]
    assert health.problems() == ["GPU 1: XID 79"]


def test_a_gpu_that_has_fallen_off_its_bus() -> None:
    library = nvml()

    def handle(index: int) -> int:
        if index == 0:
            raise NvmlError(LOST)
        return index

    health = NvmlHealth(library)
    library.nvmlDeviceGetHandleByIndex = handle
    assert health.problems() == ["GPU 0: error 15"]


def test_a_driver_without_events() -> None:
    library = nvml(ecc=1)
    library.nvmlEventSetCreate = lambda: (_ for _ in ()).throw(NvmlError(NOT_SUPPORTED))
    assert NvmlHealth(library).problems() == ["GPU 1: 1 uncorrected ECC errors"]


def test_no_gpus_no_problems() -> None:
    assert make_gpu_health("none").problems() == []


# The daemon


def test_an_unfit_node_prepares_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            node.daemon.health_problem = lambda: "no space"
            node.prepare(1, "true")
            failed = await node.controller.report(1, "prepare_failed")
            assert (failed.reason, failed.job_fault) == ("health check: no space", False)

    run(test())


def test_what_the_checks_say_reaches_the_controller_on_every_stream(tmp_path: Path) -> None:
    async def test() -> None:
        async with NodeHarness(tmp_path) as node:
            link = node.daemon.link
            assert link is not None
            link.report_health("no space")
            await until(lambda: node.controller.health == [node_pb2.Health(problem="no space")])
            link.dial_anew()
            await node.controller.registered(2)
            await until(lambda: len(node.controller.health) == 2)

    run(test())
