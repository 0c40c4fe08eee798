"""Is each GPU fit for work? Asked of NVIDIA's management library."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

log = logging.getLogger(__name__)

#: XID errors that a program's own fault brings about (NVIDIA's catalogue of XID errors): the GPU is well.
_PROGRAM_XIDS = frozenset({13, 31, 43, 45, 68, 109})
#: nvmlClocksEventReasonHwThermalSlowdown
_HW_THERMAL_SLOWDOWN = 0x40


class GpuHealth(Protocol):
    def problems(self) -> list[str]:
        """In words, "GPU 0: XID 79"; [] while all is well. Takes some milliseconds."""
        ...


class NoGpuHealth:
    def problems(self) -> list[str]:
        return []


class NvmlHealth:
    """`library` is the `pynvml` module; it must be initialized. An XID error stays a problem for as long as
    the daemon lives: a GPU that had one needs somebody to look, and the daemon is restarted with the host."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._xids: dict[str, int] = {}
        self._indexes: dict[str, int] = {}
        self._events = self._watch_events()

    def problems(self) -> list[str]:
        library = self._library
        self._collect_xids()
        found = [f"{name}: XID {xid}" for name, xid in self._xids.items()]
        for index in range(library.nvmlDeviceGetCount()):
            name = f"GPU {index}"
            try:
                handle = library.nvmlDeviceGetHandleByIndex(index)
            except library.NVMLError as error:
                found.append(f"{name}: {error}")
                continue
            for check in (_ecc, _rows, _pages, _heat):
                problem = self._check(check, handle)
                if problem:
                    found.append(f"{name}: {problem}")
        return found

    def _check(self, check: Callable[[Any, Any], str], handle: Any) -> str:
        """What the GPU does not tell is no problem."""
        library = self._library
        try:
            return check(library, handle)
        except library.NVMLError as error:
            lost = error.value in (library.NVML_ERROR_GPU_IS_LOST, library.NVML_ERROR_RESET_REQUIRED)
            return str(error) if lost else ""

    def _watch_events(self) -> Any:
        """The set in which XID errors gather; None where the driver tells of none."""
        library = self._library
        try:
            events = library.nvmlEventSetCreate()
            for index in range(library.nvmlDeviceGetCount()):
                handle = library.nvmlDeviceGetHandleByIndex(index)
                self._indexes[_uuid(library, handle)] = index
                library.nvmlDeviceRegisterEvents(handle, library.nvmlEventTypeXidCriticalError, events)
        except library.NVMLError as error:
            log.warning("the driver tells of no XID errors: %s", error)
            return None
        return events

    def _collect_xids(self) -> None:
        library = self._library
        while self._events is not None:
            try:
                event = library.nvmlEventSetWait_v2(self._events, 0)
            except library.NVMLError:
                return  # mostly a time-out: there is none
            xid = int(event.eventData)
            try:
                name = f"GPU {self._indexes.get(_uuid(library, event.device), '?')}"
            except library.NVMLError:
                name = "GPU ?"
            log.warning("%s: XID %d", name, xid)
            if xid not in _PROGRAM_XIDS:
                self._xids[name] = xid


def _uuid(library: Any, handle: Any) -> str:
    return str(library.nvmlDeviceGetUUID(handle))


def _ecc(library: Any, handle: Any) -> str:
    count = library.nvmlDeviceGetTotalEccErrors(
        handle, library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, library.NVML_VOLATILE_ECC
    )
    return f"{count} uncorrected ECC errors" if count else ""


def _rows(library: Any, handle: Any) -> str:
    _, _, pending, failed = library.nvmlDeviceGetRemappedRows(handle)
    if failed:
        return "a row could not be remapped"
    return "rows wait to be remapped, it needs a reset" if pending else ""


def _pages(library: Any, handle: Any) -> str:
    pending = library.nvmlDeviceGetRetiredPagesPendingStatus(handle)
    return "pages wait to be retired, it needs a reset" if pending else ""


def _heat(library: Any, handle: Any) -> str:
    if not library.nvmlDeviceGetCurrentClocksThrottleReasons(handle) & _HW_THERMAL_SLOWDOWN:
        return ""
    celsius = library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)
    return f"slowed down by heat ({celsius} °C)"


def make_gpu_health(kind: str) -> GpuHealth:
    """`kind` as for `gpus.make_probe`, which has been asked before: it has said what is wrong."""
    if kind == "none":
        return NoGpuHealth()
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # NVML's errors have no common base before it is loaded
        return NoGpuHealth()
    return NvmlHealth(pynvml)
