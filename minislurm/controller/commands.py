"""Commands for node daemons, from effects to messages."""

from __future__ import annotations

import time

from minislurm.cluster.effects import (
    AskCheckpoint,
    DeleteCheckpoint,
    EndRun,
    ForgetRun,
    NodeCommand,
    PrepareRun,
    SignalRun,
    StartRun,
    TellNodes,
)
from minislurm.cluster.victims import grace_of_s
from minislurm.controller.blobs import split_environment
from minislurm.controller.engine import Engine
from minislurm.domain.arrays import shape_of
from minislurm.domain.exhaustive import assert_never
from minislurm.domain.job import EndCause, Job
from minislurm.rpc import codec
from minislurm.rpc.gen import node_pb2

#: Between SIGTERM and SIGKILL, of a run that has saved.
AFTER_SAVING_S = 2.0


def command_message(engine: Engine, command: NodeCommand) -> node_pb2.Command | None:
    """None: the command has lost its point meanwhile. Raises StoreError."""
    match command:
        case PrepareRun():
            job = engine.state.jobs.get(command.job_id)
            if job is None or job.run != command.run:
                return None
            return node_pb2.Command(prepare_run=_prepare(engine, job, command))
        case StartRun():
            return node_pb2.Command(start_run=node_pb2.StartRun(job_id=command.job_id, run=command.run))
        case EndRun():
            return node_pb2.Command(
                end_run=node_pb2.EndRun(
                    job_id=command.job_id,
                    run=command.run,
                    cause=command.cause.value,
                    time=time.time(),
                    kill_wait_s=_kill_wait_s(engine, command),
                    kill=command.kill,
                )
            )
        case SignalRun():
            return node_pb2.Command(
                signal_run=node_pb2.SignalRun(
                    job_id=command.job_id,
                    run=command.run,
                    signal=command.signal,
                    step_id=command.step_id,
                    full=command.full,
                    continue_first=command.continue_first,
                )
            )
        case TellNodes():
            job = engine.state.jobs.get(command.job_id)
            if job is None or job.run != command.run:
                return None
            return node_pb2.Command(tell_nodes=_tell(job))
        case ForgetRun():
            return node_pb2.Command(forget_run=node_pb2.ForgetRun(job_id=command.job_id, run=command.run))
        case AskCheckpoint():
            return _ask_checkpoint(engine, command)
        case DeleteCheckpoint():
            return node_pb2.Command(
                delete_checkpoint=node_pb2.DeleteCheckpoint(
                    job_id=command.job_id, run=command.run, path=command.path
                )
            )
        case _:
            assert_never(command)


def _tell(job: Job) -> node_pb2.TellNodes:
    message = node_pb2.TellNodes(job_id=job.id, run=job.run, signal=job.spec.elastic_signal)
    for part in job.allocation:
        if part.node not in job.leaving:
            codec.fill(message.allocation.add(), part)
    return message


def _ask_checkpoint(engine: Engine, command: AskCheckpoint) -> node_pb2.Command | None:
    job = engine.state.jobs.get(command.job_id)
    if job is None or job.run != command.run or bool(job.checkpoint_requested) is command.withdrawn:
        return None
    message = node_pb2.AskCheckpoint(
        job_id=job.id,
        run=job.run,
        request=job.checkpoint_requested,
        reason=job.checkpoint_reason,
        withdrawn=command.withdrawn,
    )
    if job.gives_way:
        message.seconds_left = max(0.0, job.checkpoint_deadline - time.time())
    return node_pb2.Command(ask_checkpoint=message)


def _kill_wait_s(engine: Engine, command: EndRun) -> float:
    job = engine.state.jobs.get(command.job_id)
    if command.cause in (EndCause.PREEMPT, EndCause.RESIZE) and job is not None:
        grace_s = grace_of_s(engine.state, job)
        # Who was asked first has saved, or has had its time to.
        return min(grace_s, AFTER_SAVING_S) if job.checkpoint_deadline else grace_s
    timers = engine.configuration.timers
    if command.cause is EndCause.NODE_FAIL:
        # The others of a gang need not be waited for longer than the lost node.
        return min(timers.kill_wait_s, timers.node_grace_s)
    return timers.kill_wait_s


def _prepare(engine: Engine, job: Job, command: PrepareRun) -> node_pb2.PrepareRun:
    cluster = engine.configuration.cluster
    address, pattern = engine.state.topology.address(command.node)
    message = node_pb2.PrepareRun(
        job_id=job.id,
        run=job.run,
        script=engine.blob(job.spec.script_hash),
        environment=split_environment(engine.blob(job.spec.environment_hash)),
        start=command.start,
        restart_reason=job.restart_reason,
        topology_address=address,
        topology_pattern=pattern,
        controller_address=f"{cluster.controller_host}:{cluster.controller_port}",
        kill_wait_s=engine.configuration.timers.kill_wait_s,
    )
    codec.fill(message.job, job)
    for part in job.joining:
        codec.fill(message.job.allocation.add(), part)
    message.job.ClearField("joining")
    if job.array_task_id is not None:
        # A task has no use for the ids of thousands of others.
        message.job.spec.ClearField("array_tasks")
        codec.fill(message.array, shape_of(job.spec.array_tasks))
    if job.is_leader and command.node == job.batch_host:
        for component in engine.state.components(job):
            codec.fill(message.components.add(), component)
    return message
