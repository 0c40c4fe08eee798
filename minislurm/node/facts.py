"""What the host is: told to the controller at registration and with each heartbeat."""

from __future__ import annotations

import os
import platform
import socket
import time
from importlib.metadata import PackageNotFoundError, version

import psutil

from minislurm.domain.errors import ConfigurationError
from minislurm.domain.node import NodeFacts
from minislurm.domain.topology import parse_labels
from minislurm.node.gpus import GpuProbe

MIB = 1024 * 1024


def find_facts(probe: GpuProbe, *, address: str, step_port: int, topology: str = "") -> NodeFacts:
    logical = psutil.cpu_count() or 1
    cores = psutil.cpu_count(logical=False) or logical
    sockets = _socket_count()
    return NodeFacts(
        cpus=logical,
        memory_mib=psutil.virtual_memory().total // MIB,
        gpus=probe.groups(),
        host_name=socket.gethostname(),
        address=address,
        step_port=step_port,
        architecture=platform.machine(),
        operating_system=f"{platform.system()} {platform.release()}",
        version=package_version(),
        boot_time=psutil.boot_time(),
        daemon_start_time=time.time(),
        sockets=sockets,
        cores_per_socket=max(1, cores // sockets),
        threads_per_core=max(1, logical // cores),
        gpu_links=probe.links(),
        topology=topology,
    )


def find_topology(setting: str, node: str) -> str:
    """The value of [node] topology as the controller gets it. Raises ConfigurationError."""
    text = setting.replace("{node}", node)
    if text.startswith("file:"):
        try:
            with open(text.removeprefix("file:"), encoding="utf-8") as file:
                text = file.readline().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"node.topology = {setting}: {error}") from error
    try:
        parse_labels(text)
    except ValueError as error:
        raise ConfigurationError(f"node.topology = {setting}: {error}") from error
    return text


def load_and_free_memory() -> tuple[float, int]:
    """(load average of the last minute, free memory in MiB)"""
    return os.getloadavg()[0], psutil.virtual_memory().available // MIB


def own_address(step_host: str, controller_host: str, controller_port: int) -> str:
    """Where srun reaches the step service: where it listens, or for "any" where the controller sees us."""
    if step_host not in ("0.0.0.0", "::", ""):
        return step_host
    family, kind, protocol, _, target = socket.getaddrinfo(
        controller_host, controller_port, type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)  # of a datagram socket: nothing is sent, only the route is looked up
        return str(probe.getsockname()[0])


def package_version() -> str:
    try:
        return version("minislurm")
    except PackageNotFoundError:
        return "0.0.0"


def _socket_count() -> int:
    try:
        with open("/proc/cpuinfo") as file:
            ids = {line.split(":")[1].strip() for line in file if line.startswith("physical id")}
    except OSError:
        ids = set()
    return max(1, len(ids))
