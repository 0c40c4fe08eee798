"""Puts the node daemon together and runs it until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys

from minislurm.domain.configuration import Configuration
from minislurm.domain.configuration_file import load
from minislurm.domain.errors import ConfigurationError, MinislurmError
from minislurm.node import lease, wire
from minislurm.node.cgroups import find_cgroups
from minislurm.node.daemon import Daemon
from minislurm.node.facts import find_facts, find_topology, load_and_free_memory, own_address
from minislurm.node.gpu_health import NoGpuHealth, make_gpu_health
from minislurm.node.gpus import make_probe
from minislurm.node.health import Health
from minislurm.node.launcher import Launcher
from minislurm.node.lease_keeper import LeaseKeeper
from minislurm.node.link import ControllerLink, heartbeat_message
from minislurm.node.run_files import RunFiles
from minislurm.node.step_service import serve_steps
from minislurm.node.witness_service import WitnessService, ask
from minislurm.rpc.auth import Verifier, load_key, node_token

log = logging.getLogger(__name__)


def run_daemon(
    config: str | None, overrides: list[str], node: str, launcher: Launcher, *, verbose: bool = False
) -> int:
    """The exit code."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format=f"%(asctime)s minislurmd[{node}] %(levelname)s %(message)s",
    )
    logging.getLogger("grpc").setLevel(logging.WARNING)
    try:
        configuration = load(config, overrides)
        if all(spec.name != node for spec in configuration.nodes):
            names = ", ".join(spec.name for spec in configuration.nodes[:8])
            raise ConfigurationError(f"the configuration has no node {node} (it has {names or 'none'})")
        asyncio.run(_run(configuration, node, launcher))
    except MinislurmError as error:
        print(f"minislurmd: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"minislurmd: error: {error}", file=sys.stderr)
        return 1
    finally:
        launcher.stop()
    return 0


async def _run(configuration: Configuration, node: str, launcher: Launcher) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    launcher.watch()
    files = RunFiles(configuration.node.spool_dir.replace("{node}", node))
    daemon = Daemon(
        configuration,
        node,
        files=files,
        launcher=launcher,
        cgroups=find_cgroups(configuration.node.tracking, group_name(configuration, node, files.directory)),
    )
    key = load_key(configuration.key_file)
    verifier = Verifier(key, configuration.cluster.name)
    settings = configuration.node
    lease.choose_clock(configuration.cluster.controller_host)
    keeper = make_keeper(configuration, node, daemon, key, files.directory)
    witness = WitnessService(keeper.vote, verifier)
    server, port = await serve_steps(daemon, verifier, settings.step_host, settings.step_port, witness)
    daemon.link = make_link(configuration, node, daemon, key, port, keeper)
    health = make_health(configuration, node, daemon, daemon.link, files.directory)
    await daemon.checkpoints.open()
    daemon.adopt()
    keeper.begin(has_runs=bool(daemon.core.runs))
    await daemon.settle()
    # What was loaded stays: the collector need not walk it again and again.
    gc.collect()
    gc.freeze()
    log.info("node daemon started, %d runs here, steps on port %d", len(daemon.core.runs), port)
    parts = [
        asyncio.ensure_future(part)
        for part in (stopped.wait(), daemon.link.run(), keeper.run(), health.run())
    ]
    try:
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in parts[1:]:
            if part.done():
                part.result()
    finally:
        log.info("stopping; %d runs go on", len(daemon.core.runs))
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        keeper.close()
        await daemon.close()
        await server.stop(0)
        files.close()


def group_name(configuration: Configuration, node: str, spool: str) -> str:
    """Of the control group. The spool directory tells apart clusters of the same name on one host."""
    import zlib

    return f"{configuration.cluster.name}.{node}.{zlib.crc32(spool.encode()):08x}"


def make_keeper(
    configuration: Configuration, node: str, daemon: Daemon, key: bytes, directory: str
) -> LeaseKeeper:
    lifetime_s = configuration.auth.token_lifetime_s
    keeper = LeaseKeeper(
        configuration.timers,
        directory,
        ask=lambda witnesses, timeout_s: ask(
            witnesses, node_token(key, configuration.cluster.name, node, lifetime_s), timeout_s
        ),
        on_end=daemon.lease_ended,
    )
    daemon.lease_path = keeper.path
    return keeper


def make_health(
    configuration: Configuration, node: str, daemon: Daemon, link: ControllerLink, directory: str
) -> Health:
    settings = configuration.node
    declared = next((spec.cpus for spec in configuration.nodes if spec.name == node), None)
    health = Health(
        settings,
        (directory, "/tmp"),
        make_gpu_health(settings.gpu_probe) if settings.health_check_gpus else NoGpuHealth(),
        occupancy=lambda: (daemon.cpus_in_use(), declared or os.cpu_count() or 1),
        on_change=link.report_health,
        place={"SLURMD_NODENAME": node, "SLURM_CLUSTER_NAME": configuration.cluster.name},
    )
    daemon.health_problem = health.problem
    link.on_time = health.told_time
    return health


def make_link(
    configuration: Configuration, node: str, daemon: Daemon, key: bytes, step_port: int, keeper: LeaseKeeper
) -> ControllerLink:
    cluster = configuration.cluster
    host, port = cluster.controller_host, cluster.controller_port
    probe = make_probe(configuration.node.gpu_probe)
    address = own_address(configuration.node.step_host, host, port)
    topology = find_topology(configuration.node.topology, node)
    facts = find_facts(probe, address=address, step_port=step_port, topology=topology)
    return ControllerLink(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        token=lambda: node_token(key, cluster.name, node, configuration.auth.token_lifetime_s),
        registration=lambda: wire.registration(node, facts, list(daemon.core.runs.values())),
        heartbeat=lambda: heartbeat_message(*load_and_free_memory()),
        on_command=daemon.on_command,
        reconnect_interval_s=configuration.timers.reconnect_interval_s,
        heartbeat_interval_s=configuration.timers.heartbeat_interval_s,
        silence_limit_s=configuration.timers.node_suspect_s,
        on_heard=keeper.heard,
        on_witnesses=keeper.told_witnesses,
    )
