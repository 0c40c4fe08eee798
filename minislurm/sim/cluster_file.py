"""Which cluster a simulation has: a configuration file, one flat pool, a node list of the openb trace, or the
cluster that wrote a journal."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from minislurm.domain import configuration_file
from minislurm.domain.configuration import Configuration, DomainSpec, Partition
from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import NodeName
from minislurm.domain.node import NodeSpec

_MOST_PROCESSORS = 65536


def read(text: str, overrides: tuple[str, ...] = ()) -> Configuration:
    """`flat:PROCS`, `openb:NODES.csv`, `journal:JOURNAL`, or the path of a configuration file. Raises
    ConfigurationError."""
    kind, separator, rest = text.partition(":")
    if separator and kind == "flat":
        return _overridden(flat(rest), overrides)
    if separator and kind == "openb":
        from minislurm.sim import openb

        return _overridden(openb.cluster(Path(rest)), overrides)
    if separator and kind == "journal":
        from minislurm.sim import journal_trace

        return _overridden(journal_trace.cluster(rest), overrides)
    configuration = configuration_file.load(text, overrides)
    for spec in configuration.nodes:
        if spec.cpus is None:
            raise ConfigurationError(
                f"{text}: [[nodes]] {spec.name}: declares no cpus; a simulation has no daemon that finds them"
            )
    if not configuration.nodes or not configuration.partitions:
        raise ConfigurationError(f"{text}: a simulation needs [[nodes]] and [[partitions]]")
    return configuration


def _overridden(configuration: Configuration, overrides: tuple[str, ...]) -> Configuration:
    if not overrides:
        return configuration
    return configuration_file.parse(configuration_file.to_toml(configuration), "--set", overrides)


def flat(text: str) -> Configuration:
    """One node whose CPUs are the processors: nothing but their number decides. Raises ConfigurationError."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MOST_PROCESSORS:
        raise ConfigurationError(f"flat:{text}: must be a number of processors, 1 to {_MOST_PROCESSORS}")
    return of_nodes([NodeSpec(NodeName("pool"), cpus=int(text), memory_mib=0, gpus_declared=True)])


def of_nodes(nodes: list[NodeSpec]) -> Configuration:
    """These nodes in one partition, "batch"."""
    partition = Partition("batch", nodes=tuple(spec.name for spec in nodes), default=True)
    return Configuration(nodes=tuple(nodes), partitions=(partition,))


def in_racks(configuration: Configuration, size: int) -> Configuration:
    """The nodes in racks of `size`, in the order in which they are declared, instead of its own topology."""
    names = [spec.name for spec in configuration.nodes]
    racks = (names[start : start + size] for start in range(0, len(names), size))
    topology = tuple(
        DomainSpec(f"rack{number}", nodes=tuple(members)) for number, members in enumerate(racks, start=1)
    )
    return replace(configuration, topology=topology)
