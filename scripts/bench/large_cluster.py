#!/usr/bin/env python3
"""The controller with a large cluster and a long queue: memory, and how long clients wait while passes run.

A process of its own holds the real engine, scheduler and service over 10,000 nodes of 8 GPUs in 640 racks
that have registered (nobody answers for them), 97 % of them held by gangs, and 100,000 pending jobs in 200
classes, journaled like any others. This process is the client: it submits jobs and asks for one, again and
again, while pass follows pass.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import psutil
import scheduling as work

from minislurm.domain import configuration_file
from minislurm.domain.configuration import (
    ClusterSection,
    Configuration,
    LimitsSection,
    Partition,
    TimersSection,
)
from minislurm.domain.ids import JobId
from minislurm.domain.job import JobSpec
from minislurm.domain.node import NodeFacts, NodeSpec
from minislurm.domain.resources import GpuGroup, ResourceRequest
from minislurm.domain.views import JobQuery, Submission
from minislurm.rpc.client import ControllerClient

CALLS_S = 20.0


def a_configuration(folder: Path, scale: work.Scale) -> Configuration:
    names = work.node_names(scale)
    gpus = (GpuGroup(work.GPUS, "a100"),)
    specs = tuple(
        NodeSpec(name, work.CPUS, work.MEMORY_MIB, gpus, gpus_declared=True, features=("ib",))
        for name in names
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return Configuration(
        cluster=ClusterSection(controller_port=port, state_dir=str(folder)),
        # Nobody answers for the nodes.
        timers=TimersSection(node_suspect_s=1e6, node_timeout_s=2e6, prepare_timeout_s=1e6),
        limits=LimitsSection(max_job_count=300_000),
        nodes=specs,
        partitions=(Partition("batch", nodes=names, default=True),),
        topology=tuple(work.a_topology(scale).domains.values()),
    )


def a_submission(request: ResourceRequest, limit_s: float) -> Submission:
    spec = JobSpec(
        name="job", user_id=0, group_id=0, user_name="root", group_name="root", partition="", work_dir="/",
        request=request, is_batch=True, time_limit_s=limit_s, std_out="/dev/null",
    )  # fmt: skip
    return Submission(spec, b"#!/bin/sh\ntrue\n")


# The controller


async def serve(configuration: Configuration, scale: work.Scale) -> None:
    import grpc

    from minislurm.cluster.messages import Caller, PlacementProposed, RegisterNode, SubmitJob
    from minislurm.controller import collector
    from minislurm.controller.engine import Engine
    from minislurm.controller.scheduler import Scheduler
    from minislurm.controller.service import ControllerService
    from minislurm.controller.watchers import Watchers
    from minislurm.journal.store import Store
    from minislurm.rpc import auth
    from minislurm.rpc.gen import controller_pb2_grpc
    from minislurm.scheduling.model import Placement

    key = auth.make_key(configuration.key_file)
    engine = Engine(Store(f"{configuration.cluster.state_dir}/journal.db", keep_events=0), configuration)
    scheduler = Scheduler(engine)
    watchers = Watchers(engine, scheduler)
    engine.outside.job_changed = watchers.job_changed
    server = grpc.aio.server()
    verifier = auth.Verifier(key, configuration.cluster.name)
    service = ControllerService(engine, scheduler, watchers, key, verifier)
    controller_pb2_grpc.add_ControllerServicer_to_server(service, server)
    server.add_insecure_port(f"127.0.0.1:{configuration.cluster.controller_port}")
    await engine.start()
    draw, root = random.Random(scale.seed), Caller(0, is_operator=True)
    for name in engine.state.nodes:
        engine.tell(RegisterNode(name, NodeFacts(), ()))
    _, running = work.busy(work.idle_nodes(scale), draw)
    for run in running:
        job_id = engine.state.next_job_id
        spec = a_submission(work.a_gang(len(run.allocation)), run.end_time - work.NOW).spec
        engine.tell(SubmitJob(spec, root, f"run-{job_id}"))
        engine.tell(PlacementProposed(Placement(job_id, None, run.allocation)))
    requests = work.pending_requests(scale.classes, draw)
    for number in range(scale.pending):
        limit_s = (3600.0, 4 * 3600.0, 86_400.0)[number % scale.classes % 3]
        spec = a_submission(requests[number % scale.classes], limit_s).spec
        engine.tell(SubmitJob(spec, root, f"job-{number}"))
        if number % 1000 == 0:
            await engine.journal.flush()
    await engine.journal.flush()
    collector.settle()
    watchers.start()
    engine.outside.schedule = scheduler.wake
    passes = asyncio.ensure_future(scheduler.run())
    await server.start()
    scheduler.wake()
    print("ready", flush=True)
    await passes


# The client


def measure(scale: work.Scale) -> list[work.Figure]:
    with tempfile.TemporaryDirectory(prefix="large-cluster-") as folder:
        configuration = a_configuration(Path(folder), scale)
        path = Path(folder) / "configuration.json"
        path.write_text(configuration_file.to_json(configuration))
        command = [sys.executable, __file__, "--serve", str(path), "--pending", str(scale.pending)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as controller:
            try:
                assert controller.stdout is not None
                assert controller.stdout.readline().strip() == "ready", "the controller did not start"
                time.sleep(5)
                return _calls(configuration, scale, psutil.Process(controller.pid))
            finally:
                controller.kill()


def _calls(configuration: Configuration, scale: work.Scale, controller: psutil.Process) -> list[work.Figure]:
    small = a_submission(work.a_gang(2), 3600.0)
    waits: dict[str, list[float]] = {"submission": [], "question for one job": []}
    with ControllerClient(configuration) as client:
        last = client.submit(small)
        end = time.perf_counter() + CALLS_S
        while time.perf_counter() < end:
            start = time.perf_counter()
            last = client.submit(small)
            middle = time.perf_counter()
            client.list_jobs(JobQuery((JobId(last),)))
            waits["submission"].append(middle - start)
            waits["question for one job"].append(time.perf_counter() - middle)
            time.sleep(0.02)
    figures = [work.Figure("controller's memory", "MB", controller.memory_info().rss / 1e6, "<= 600")]
    for what, seconds in waits.items():
        ranked = sorted(seconds)
        target = "<= 20" if what != "submission" else ""  # a submission is on the disk before its answer
        figures += [
            work.Figure(f"{what} while passes run: median", "ms", 1000 * statistics.median(ranked)),
            work.Figure("  99th percentile", "ms", 1000 * ranked[int(0.99 * len(ranked))], target),
            work.Figure("  calls", "", len(ranked)),
        ]
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench/run large-cluster", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--pending", type=int, default=work.Scale().pending)
    parser.add_argument("--serve", metavar="FILE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    scale = replace(work.Scale(), pending=arguments.pending)
    if arguments.serve:
        configuration = configuration_file.from_json(Path(arguments.serve).read_text())
        asyncio.run(serve(configuration, scale))
        return 0
    for figure in measure(scale):
        print(figure.line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
