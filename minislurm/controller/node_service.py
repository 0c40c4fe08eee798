"""The gRPC service for node daemons: one stream each."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from minislurm.cluster.messages import (
    CheckpointFailed,
    CheckpointListener,
    CheckpointMade,
    Message,
    NodeHealth,
    NodeReport,
    PrepareFailed,
    RegisterNode,
    RunReport,
    StepEnded,
)
from minislurm.controller.engine import Engine
from minislurm.controller.node_hub import Connection, NodeHub
from minislurm.domain.checkpoint import Checkpoint
from minislurm.domain.errors import AccessDenied, MinislurmError, Refusal, RefusalCode
from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId
from minislurm.domain.node import NodeFacts
from minislurm.journal.store import StoreError
from minislurm.rpc import auth, codec, status
from minislurm.rpc.gen import node_pb2, node_pb2_grpc

log = logging.getLogger(__name__)


class NodeService(node_pb2_grpc.NodeControlServicer):
    def __init__(self, engine: Engine, hub: NodeHub, verifier: auth.Verifier) -> None:
        self._engine = engine
        self._hub = hub
        self._verifier = verifier

    async def Connect(self, requests: Any, context: Any) -> None:
        try:
            token = status.bearer_token(context.invocation_metadata())
            name = NodeName(self._verifier.verify_node(token))
            connection = await self._register(name, context)
        except MinislurmError as error:
            log.warning("a node daemon was turned away: %s", error)
            await status.abort(context, error)
        reader = asyncio.ensure_future(self._read(connection, context))
        try:
            while (message := await connection.next_message()) is not None:
                await context.write(message)
        finally:
            reader.cancel()
            self._hub.closed(connection)
            log.info("node %s: stream closed", name)

    async def _register(self, name: NodeName, context: Any) -> Connection:
        """Raises AccessDenied for a daemon that says another name than its credential, Refusal for a node
        that the configuration does not know or while the store is away."""
        if self._engine.journal.broken is not None:
            raise Refusal(RefusalCode.STORE_UNAVAILABLE)
        message = await context.read()
        registration = getattr(message, "registration", None)
        if registration is None or not registration.node:
            raise AccessDenied("a stream begins with a registration")
        if registration.node != name:
            raise AccessDenied(f"{name} registers as {registration.node}")
        node = self._engine.state.nodes.get(name)
        if node is None:
            raise Refusal(RefusalCode.INVALID_NODE_NAME)
        connection = self._hub.open(name)
        connection.send(
            node_pb2.Command(
                registered=node_pb2.Registered(
                    heartbeat_interval_s=self._engine.configuration.timers.heartbeat_interval_s,
                    spec=codec.to_proto(node.spec),
                    cluster=self._engine.configuration.cluster.name,
                )
            )
        )
        facts = codec.from_proto(NodeFacts, registration.facts)
        runs = tuple(_run_report(run) for run in registration.runs)
        try:
            await self._engine.act(RegisterNode(name, facts, runs))
        except BaseException:
            self._hub.closed(connection)
            raise
        log.info("node %s: registered, %d runs", name, len(runs))
        return connection

    async def _read(self, connection: Connection, context: Any) -> None:
        import grpc

        while True:
            message = await context.read()
            if message is grpc.aio.EOF:
                connection.close()
                return
            beat = message.heartbeat.number if message.HasField("heartbeat") else 0
            self._hub.heard(connection, beat)
            match message.WhichOneof("kind"):
                case "heartbeat":
                    node = self._engine.state.nodes[connection.node]
                    node.cpu_load = message.heartbeat.cpu_load
                    node.free_memory_mib = message.heartbeat.free_memory_mib
                case "health":
                    if self._engine.journal.broken is None:
                        self._engine.tell(NodeHealth(connection.node, message.health.problem))
                case "reports":
                    for report in message.reports.reports:
                        self._report(connection, report)

    def _report(self, connection: Connection, report: Any) -> None:
        """Acknowledged once it is durable; while the store is away the node keeps it."""
        if self._engine.journal.broken is not None or connection.closed:
            return
        number: int = report.number
        self._engine.tell(
            _message_of(connection.node, report),
            done=lambda: connection.acknowledge(number),
            failed=_kept_by_the_node,
        )


def _kept_by_the_node(error: StoreError) -> None:
    """Nothing to undo: it comes again with the node's next registration."""


def _message_of(node: NodeName, report: Any) -> Message:
    job_id, run = JobId(report.job_id), RunNumber(report.run)
    match report.WhichOneof("kind"):
        case "run_prepared":
            return NodeReport(node, RunReport(job_id, run, "PREPARED"))
        case "prepare_failed":
            failed = report.prepare_failed
            return PrepareFailed(node, job_id, run, failed.reason, failed.job_fault)
        case "run_started":
            return NodeReport(node, RunReport(job_id, run, "RUNNING", start_time=report.run_started.time))
        case "batch_exited":
            exited = report.batch_exited
            return NodeReport(
                node,
                RunReport(
                    job_id,
                    run,
                    "EXITED",
                    exited.exit_code,
                    exited.exit_signal,
                    end_time=exited.time,
                    launch_failed=exited.launch_failed,
                    out_of_memory=exited.out_of_memory,
                    node_lost=exited.node_lost,
                ),
                clean=exited.clean,
            )
        case "run_cleaned":
            return NodeReport(node, RunReport(job_id, run, "CLEAN", end_time=report.run_cleaned.time))
        case "step_ended":
            ended = report.step_ended
            return StepEnded(node, job_id, run, StepId(ended.step_id), ended.exit_code, ended.exit_signal)
        case "checkpoint_made":
            return _checkpoint(job_id, run, report.checkpoint_made)
        case "checkpoint_failed":
            return CheckpointFailed(job_id, run, report.checkpoint_failed.request)
        case "checkpoint_listener":
            return CheckpointListener(job_id, run)
    raise MinislurmError(f"node {node} sent a report of an unknown kind")


def _checkpoint(job_id: JobId, run: RunNumber, made: Any) -> CheckpointMade:
    return CheckpointMade(job_id, run, codec.from_proto(Checkpoint, made.checkpoint), made.answers)


def _run_report(run: Any) -> RunReport:
    return RunReport(
        JobId(run.job_id),
        RunNumber(run.run),
        run.phase,
        run.exit_code,
        run.exit_signal,
        run.start_time,
        run.end_time,
        launch_failed=run.launch_failed,
        running_steps=tuple(StepId(step) for step in run.running_steps),
        node_lost=run.node_lost,
        checkpoints=tuple(
            _checkpoint(JobId(run.job_id), RunNumber(run.run), made) for made in run.checkpoints
        ),
        listens=run.listens,
    )
