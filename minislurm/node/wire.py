"""node.proto to the core's words and back. The only file besides the link and the step service that sees
protobuf messages."""

from __future__ import annotations

import time
from math import inf

from minislurm.domain.arrays import ArrayShape
from minislurm.domain.exhaustive import assert_never
from minislurm.domain.ids import JobId, RunNumber, StepId
from minislurm.domain.job import EndCause, Job
from minislurm.domain.node import NodeFacts
from minislurm.domain.resources import NodeAllocation
from minislurm.node.core import RunRecord
from minislurm.node.messages import (
    Ask,
    BatchExited,
    CheckpointFailed,
    CheckpointListener,
    CheckpointMade,
    Command,
    Delete,
    End,
    Exit,
    Forget,
    Phase,
    Prepare,
    PrepareFailed,
    Report,
    RunCleaned,
    RunKey,
    RunPrepared,
    RunStarted,
    Signal,
    Start,
    StepEnded,
    TellNodes,
)
from minislurm.rpc.codec import fill, from_proto, to_proto
from minislurm.rpc.gen import node_pb2


def command(message: node_pb2.Command) -> Command | None:
    """None for Registered, and for what a newer controller says."""
    match message.WhichOneof("kind"):
        case "prepare_run":
            return prepare(message.prepare_run)
        case "start_run":
            return Start(_key(message.start_run))
        case "end_run":
            end = message.end_run
            return End(_key(end), EndCause(end.cause), end.time, end.kill_wait_s, end.kill)
        case "signal_run":
            signal = message.signal_run
            step_id = StepId(signal.step_id) if signal.HasField("step_id") else None
            return Signal(_key(signal), signal.signal, step_id, signal.full, signal.continue_first)
        case "tell_nodes":
            parts = tuple(from_proto(NodeAllocation, item) for item in message.tell_nodes.allocation)
            return TellNodes(_key(message.tell_nodes), parts, message.tell_nodes.signal)
        case "forget_run":
            return Forget(_key(message.forget_run))
        case "ask_checkpoint":
            ask = message.ask_checkpoint
            deadline = time.time() + ask.seconds_left if ask.HasField("seconds_left") else inf
            return Ask(_key(ask), ask.request, ask.reason, deadline, ask.withdrawn)
        case "delete_checkpoint":
            return Delete(_key(message.delete_checkpoint), message.delete_checkpoint.path)
        case _:
            return None


def prepare(message: node_pb2.PrepareRun) -> Prepare:
    """Without script and environment, which go to disk as they are."""
    return Prepare(
        key=_key(message),
        job=from_proto(Job, message.job),
        start=message.start,
        kill_wait_s=message.kill_wait_s,
        restart_reason=message.restart_reason,
        topology_address=message.topology_address,
        topology_pattern=message.topology_pattern,
        controller_address=message.controller_address,
        array=from_proto(ArrayShape, message.array) if message.HasField("array") else None,
        components=tuple(from_proto(Job, item) for item in message.components),
    )


def _key(
    message: node_pb2.PrepareRun
    | node_pb2.StartRun
    | node_pb2.EndRun
    | node_pb2.SignalRun
    | node_pb2.TellNodes
    | node_pb2.ForgetRun
    | node_pb2.AskCheckpoint
    | node_pb2.DeleteCheckpoint,
) -> RunKey:
    return RunKey(JobId(message.job_id), RunNumber(message.run))


def report(said: Report) -> node_pb2.Report:
    message = node_pb2.Report(job_id=said.key.job_id, run=said.key.run)
    match said:
        case RunPrepared():
            message.run_prepared.SetInParent()
        case PrepareFailed():
            message.prepare_failed.reason = said.reason
            message.prepare_failed.job_fault = said.job_fault
        case RunStarted():
            message.run_started.time = said.time
        case BatchExited():
            _fill_exit(message.batch_exited, said.exit)
            message.batch_exited.launch_failed = said.exit.launch_failed
            message.batch_exited.reason = said.exit.reason
            message.batch_exited.clean = said.clean
            message.batch_exited.node_lost = said.exit.node_lost
        case RunCleaned():
            message.run_cleaned.time = said.time
        case StepEnded():
            _fill_exit(message.step_ended, said.exit)
            message.step_ended.step_id = said.step_id
        case CheckpointMade():
            _fill_made(message.checkpoint_made, said)
        case CheckpointFailed():
            message.checkpoint_failed.request = said.request
        case CheckpointListener():
            message.checkpoint_listener.SetInParent()
        case _:
            assert_never(said)
    return message


def _fill_made(message: node_pb2.CheckpointMade, said: CheckpointMade) -> None:
    fill(message.checkpoint, said.checkpoint)
    message.answers = said.answers


def _fill_exit(message: node_pb2.BatchExited | node_pb2.StepEnded, exit: Exit) -> None:
    message.exit_code = exit.exit_code
    message.exit_signal = exit.exit_signal
    message.time = exit.time


def registration(node: str, facts: NodeFacts, records: list[RunRecord]) -> node_pb2.Registration:
    return node_pb2.Registration(
        node=node,
        facts=to_proto(facts),
        runs=[_run_status(record) for record in records if record.phase is not Phase.PREPARING],
    )


def _run_status(record: RunRecord) -> node_pb2.RunStatus:
    exit = record.exit or Exit()
    status = node_pb2.RunStatus(
        job_id=record.key.job_id,
        run=record.key.run,
        phase=record.phase.value,
        exit_code=exit.exit_code,
        exit_signal=exit.exit_signal,
        start_time=record.start_time,
        end_time=exit.time or record.end_time,
        launch_failed=exit.launch_failed,
        node_lost=record.lost or exit.node_lost,
        running_steps=sorted(
            step_id for step_id, step in record.steps.items() if step_id >= 0 and not step.exited
        ),
        listens=record.listens,
    )
    for made in record.unsaid.values():
        _fill_made(status.checkpoints.add(), made)
    return status
