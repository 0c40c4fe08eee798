"""What a local cluster consists of: from the options of `minislurm up` to its configuration file."""

from __future__ import annotations

import errno
import json
import random
import socket
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from minislurm.domain.configuration import (
    AuthSection,
    ClusterSection,
    Configuration,
    DomainSpec,
    NodeSection,
    Partition,
)
from minislurm.domain.configuration_file import parse, to_toml
from minislurm.domain.configuration_values import gpu_groups, size_mib
from minislurm.domain.errors import ConfigurationError, UsageError
from minislurm.domain.ids import NodeName
from minislurm.domain.node import NodeSpec

#: Below the ports that Linux hands out by itself, so that no outgoing connection sits on ours at a restart.
_PORTS = range(20_000, 32_000)
_MOST_NODES = 256

_HEADING = """\
# Written by `minislurm up`, which writes it anew when it is given other options. Changes made by hand stay
# until then, and take effect with `minislurm restart all`. etc/minislurm.toml explains every key.

"""


class Plan(Struct, frozen=True):
    """The options of `minislurm up`, kept beside the configuration that was made from them."""

    nodes: int = 4
    cpus: int = 8
    memory: str = "16G"
    gpus: int = 4
    gpu_type: str = ""
    racks: int = 2
    #: `--set` overrides in their order.
    overrides: tuple[str, ...] = ()

    def changed(
        self,
        *,
        nodes: int | None,
        cpus: int | None,
        memory: str | None,
        gpus: int | None,
        gpu_type: str | None,
        racks: int | None,
        overrides: tuple[str, ...],
    ) -> Plan:
        """With what was given this time; an override replaces an earlier one of the same key."""
        given = {
            "nodes": nodes,
            "cpus": cpus,
            "memory": memory,
            "gpus": gpus,
            "gpu_type": gpu_type,
            "racks": racks,
        }
        by_key = {text.partition("=")[0].strip(): text for text in (*self.overrides, *overrides)}
        numbers = {name: value for name, value in given.items() if value is not None}
        return replace(self, **numbers, overrides=tuple(by_key.values()))

    def sets(self, key: str) -> bool:
        """Is there an override of `section.key`?"""
        return any(text.partition("=")[0].strip() == key for text in self.overrides)

    def check(self) -> None:
        """Raises UsageError."""
        if not 1 <= self.nodes <= _MOST_NODES:
            raise UsageError(f"--nodes={self.nodes}: must be from 1 to {_MOST_NODES}")
        if self.cpus < 1:
            raise UsageError(f"--cpus={self.cpus}: must be 1 or more")
        if self.gpus < 0:
            raise UsageError(f"--gpus={self.gpus}: must be 0 or more")
        if not self.racks >= 0:
            raise UsageError(f"--racks={self.racks}: must be 0 or more")
        try:
            size_mib(self.memory)
        except ValueError as error:
            raise UsageError(f"--memory={self.memory}: {error}") from error
        if self.gpu_type:
            try:
                gpu_groups(f"{self.gpu_type}:1")
            except ValueError:
                raise UsageError(f"--gpu-type={self.gpu_type}: must be a word") from None

    def to_json(self) -> str:
        return json.dumps(to_builtins(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Raises ValueError."""
        values = {key: value for key, value in json.loads(text).items() if key in cls.__struct_fields__}
        values["overrides"] = tuple(values.get("overrides", ()))
        return cls(**values)


def configuration_text(plan: Plan, folder: Path, agent_socket: str, port: int | None) -> str:
    """The configuration file of a cluster in `folder`. Raises ConfigurationError (a bad override).

    `port`: the controller's; None: a free one.
    """
    names = tuple(NodeName(f"n{number}") for number in range(1, plan.nodes + 1))
    gpus = gpu_groups(f"{plan.gpu_type}:{plan.gpus}" if plan.gpu_type else plan.gpus)
    base = Configuration(
        cluster=ClusterSection(
            name="local", controller_port=port or free_port(), state_dir=str(folder / "state")
        ),
        auth=AuthSection(key_file=str(folder / "state" / "auth.key"), agent_socket=agent_socket),
        node=NodeSection(spool_dir=str(folder / "spool" / "{node}")),
        nodes=tuple(
            NodeSpec(name, plan.cpus, size_mib(plan.memory), gpus=gpus, gpus_declared=True) for name in names
        ),
        partitions=(Partition("batch", nodes=names, default=True),),
        topology=racks(names, plan.racks),
    )
    return _HEADING + to_toml(parse(to_toml(base), "minislurm up", plan.overrides))


def racks(names: tuple[NodeName, ...], count: int) -> tuple[DomainSpec, ...]:
    """`names` in `count` racks of neighbours, equal but for one node."""
    count = min(count, len(names))
    bounds = [len(names) * number // count for number in range(count + 1)] if count else []
    return tuple(
        DomainSpec(f"rack{number}", "rack", "", names[bounds[number - 1] : bounds[number]])
        for number in range(1, count + 1)
    )


def free_port() -> int:
    """A port on which nothing listens on this host's loopback. Raises ConfigurationError."""
    for _ in range(200):
        port = random.choice(_PORTS)
        if is_free(port):
            return port
    raise ConfigurationError(f"no free port from {_PORTS.start} to {_PORTS.stop - 1} on this host")


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """May a server listen there now? Connections that are closing do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # The controller sets SO_REUSEPORT, so it would share a port instead of failing: ask without it.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
