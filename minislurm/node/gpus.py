"""Which GPUs the host has."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from minislurm.domain.errors import ConfigurationError
from minislurm.domain.resources import GpuGroup

log = logging.getLogger(__name__)


class GpuProbe(Protocol):
    def groups(self) -> tuple[GpuGroup, ...]:
        """The host's GPUs by type, in the order of their indexes (neighbours of one type form a group)."""
        ...


class NoGpus:
    def groups(self) -> tuple[GpuGroup, ...]:
        return ()


class NvmlProbe:
    """Asks NVIDIA's management library. `library` is the `pynvml` module; it must be initialized."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def groups(self) -> tuple[GpuGroup, ...]:
        names: list[str] = []
        for index in range(self._library.nvmlDeviceGetCount()):
            name = self._library.nvmlDeviceGetName(self._library.nvmlDeviceGetHandleByIndex(index))
            names.append(gpu_type(name.decode() if isinstance(name, bytes) else name))
        return grouped(names)


def gpu_type(product: str) -> str:
    """The type that a user writes, of a product's name: "NVIDIA A100-SXM4-80GB" is "a100".

    It is the first word with a digit, without the form factor and the size of memory.
    """
    words = product.lower().replace("-", " ").split()
    return next((word for word in words if any(c.isdigit() for c in word)), words[-1] if words else "")


def grouped(types: list[str]) -> tuple[GpuGroup, ...]:
    groups: list[GpuGroup] = []
    for name in types:
        if groups and groups[-1].type == name:
            groups[-1] = GpuGroup(groups[-1].count + 1, name)
        else:
            groups.append(GpuGroup(1, name))
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
