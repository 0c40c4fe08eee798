"""Which GPUs the host has."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec.structs import replace

from minislurm.domain.errors import ConfigurationError
from minislurm.domain.resources import GpuGroup

MIB = 1024 * 1024

log = logging.getLogger(__name__)


class GpuProbe(Protocol):
    def groups(self) -> tuple[GpuGroup, ...]:
        """The host's GPUs by type, in the order of their indexes (neighbours of one type form a group)."""
        ...

    def links(self) -> tuple[str, ...]:
        """The matrix of links between them (domain/gpu_links.py); () where it cannot be found out."""
        ...


class NoGpus:
    def groups(self) -> tuple[GpuGroup, ...]:
        return ()

    def links(self) -> tuple[str, ...]:
        return ()


class NvmlProbe:
    """Asks NVIDIA's management library. `library` is the `pynvml` module; it must be initialized."""

    def __init__(self, library: Any, numa_of: Callable[[str], int] | None = None) -> None:
        self._library = library
        self._numa_of = numa_of or numa_node

    def groups(self) -> tuple[GpuGroup, ...]:
        return grouped([self._gpu(handle) for handle in self._handles()])

    def links(self) -> tuple[str, ...]:
        """NVLinks first: the PCIe path between two GPUs is there besides them."""
        handles = self._handles()
        try:
            buses = [_text(self._library.nvmlDeviceGetPciInfo(handle).busId) for handle in handles]
            nvlinks = [self._nvlinks(handle) for handle in handles]
            return tuple(
                " ".join(
                    self._domain(buses[i]) if i == j else self._link(handles, buses, nvlinks, i, j)
                    for j in range(len(handles))
                )
                for i in range(len(handles))
            )
        except self._library.NVMLError as error:
            log.warning("the links between GPUs are not known: %s", error)
            return ()

    def _handles(self) -> list[Any]:
        count = self._library.nvmlDeviceGetCount()
        return [self._library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]

    def _gpu(self, handle: Any) -> GpuGroup:
        """One GPU. What an old driver does not tell stays unknown."""
        library = self._library
        memory_mib, capability = 0, ""
        try:
            memory_mib = library.nvmlDeviceGetMemoryInfo(handle).total // MIB
            capability = "{}.{}".format(*library.nvmlDeviceGetCudaComputeCapability(handle))
        except library.NVMLError as error:
            log.warning("memory or compute capability of a GPU is not known: %s", error)
        return GpuGroup(1, gpu_type(_text(library.nvmlDeviceGetName(handle))), memory_mib, capability)

    def _domain(self, bus: str) -> str:
        numa = self._numa_of(bus)
        return f"N{numa}" if numa >= 0 else "X"

    def _link(self, handles: list[Any], buses: list[str], nvlinks: list[Counter[str]], i: int, j: int) -> str:
        direct = nvlinks[i][_bus_key(buses[j])]
        # Through a switch every GPU reaches every other with all its links.
        through = min(nvlinks[i][_SWITCH], nvlinks[j][_SWITCH])
        if direct or through:
            return f"NV{direct or through}"
        level = self._library.nvmlDeviceGetTopologyCommonAncestor(handles[i], handles[j])
        return _LEVELS.get(int(level), "SYS")

    def _nvlinks(self, handle: Any) -> Counter[str]:
        """Active NVLinks by what is at their other end: a GPU's bus, or a switch."""
        library, links = self._library, Counter[str]()
        for link in range(library.NVML_NVLINK_MAX_LINKS):
            try:
                if not library.nvmlDeviceGetNvLinkState(handle, link):
                    continue
                remote = library.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
                if remote == library.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                    links[_SWITCH] += 1
                elif remote == library.NVML_NVLINK_DEVICE_TYPE_GPU:
                    bus = _text(library.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
                    links[_bus_key(bus)] += 1
            except library.NVMLError:
                break  # a GPU without NVLink, or without one of that number
        return links


_SWITCH = "switch"
#: NVML's levels of a common ancestor, in the words of `nvidia-smi topo -m`.
_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _bus_key(bus: str) -> str:
    """NVML writes a bus's domain with four digits in one place and with eight in another."""
    domain, _, rest = bus.lower().partition(":")
    return f"{int(domain, 16):x}:{rest}"


def numa_node(bus: str) -> int:
    """The NUMA domain of a PCI device as the kernel knows it; -1: it does not."""
    domain, _, rest = bus.lower().partition(":")
    try:
        with open(f"/sys/bus/pci/devices/{int(domain, 16):04x}:{rest}/numa_node") as file:
            return int(file.read())
    except (OSError, ValueError):
        return -1


def gpu_type(product: str) -> str:
    """The type that a user writes, of a product's name: "NVIDIA A100-SXM4-80GB" is "a100".

    It is the first word with a digit, without the form factor and the size of memory.
    """
    words = product.lower().replace("-", " ").split()
    return next((word for word in words if any(c.isdigit() for c in word)), words[-1] if words else "")


def grouped(gpus: Iterable[GpuGroup]) -> tuple[GpuGroup, ...]:
    """Equal neighbours together."""
    groups: list[GpuGroup] = []
    for gpu in gpus:
        if groups and replace(groups[-1], count=gpu.count) == gpu:
            groups[-1] = replace(gpu, count=groups[-1].count + gpu.count)
        else:
            groups.append(gpu)
    return tuple(groups)


def make_probe(kind: str) -> GpuProbe:
    """`kind`: "none", "nvml", or "auto": NVML where the host has it. Raises ConfigurationError."""
    if kind == "none":
        return NoGpus()
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # NVML's errors have no common base before it is loaded
        if kind == "nvml":
            raise ConfigurationError(f"node.gpu_probe = nvml: {error}") from error
        return NoGpus()
    return NvmlProbe(pynvml)
