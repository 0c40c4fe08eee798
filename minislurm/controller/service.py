"""The gRPC service for commands: thin. Who calls, one message to the core, an answer once it is durable."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
from msgspec.structs import replace

from minislurm.cluster.messages import (
    Caller,
    CancelJob,
    ChangeAccounts,
    CreateStep,
    EndAllocation,
    HoldJob,
    Message,
    ReleaseJob,
    RememberRequest,
    RequestCheckpoint,
    RequeueJob,
    SignalJob,
    SubmitJob,
    UpdateJob,
    UpdateNode,
    UpdatePartition,
)
from minislurm.controller import answers, reservation_service
from minislurm.controller.configuration_answer import configuration_values
from minislurm.controller.engine import Engine
from minislurm.controller.estimate import test_submission
from minislurm.controller.export import exported_state
from minislurm.controller.forecasts import Forecasts
from minislurm.controller.groups import GroupLookup
from minislurm.controller.scheduler import Scheduler
from minislurm.controller.submissions import prepare_submission
from minislurm.controller.watchers import Watchers
from minislurm.domain import version
from minislurm.domain.accounts import AccountChanges
from minislurm.domain.errors import AccessDenied, MinislurmError, Refusal, RefusalCode
from minislurm.domain.ids import JobId, NodeName, RunNumber, StepId
from minislurm.domain.job import JobSpec
from minislurm.domain.states import PartitionState
from minislurm.domain.views import JobChanges, JobQuery, JobTarget, StepGrant, StepNode, StepRequest
from minislurm.rpc import auth, codec, status
from minislurm.rpc.gen import controller_pb2, controller_pb2_grpc

_CHUNK = 500
_STEP_CREDENTIAL_LIFETIME_S = 600.0
T = TypeVar("T")


def _answers_errors(method: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Turns what the user did wrong into a gRPC status (rpc/status.py)."""

    @functools.wraps(method)
    async def wrapped(self: Any, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> T:
        try:
            return await method(self, request, context)
        except MinislurmError as error:
            await status.abort(context, error)
            raise AssertionError("unreachable") from error

    return wrapped


class ControllerService(controller_pb2_grpc.ControllerServicer):
    def __init__(
        self, engine: Engine, scheduler: Scheduler, watchers: Watchers, key: bytes, verifier: auth.Verifier
    ) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._watchers = watchers
        self._key = key
        self._verifier = verifier
        self._own_user_id = os.getuid()
        self._host = socket.gethostname().split(".")[0]
        self._forecasts = Forecasts(engine)
        self._groups = GroupLookup(engine.configuration, self._own_user_id)

    def _person(self, context: grpc.aio.ServicerContext[Any, Any]) -> auth.Caller:
        token = status.bearer_token(context.invocation_metadata())
        if not token:
            raise AccessDenied("no credential")
        return self._verifier.verify_user(token)

    def _caller(self, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        return self._as_caller(self._person(context))

    def _as_caller(self, person: auth.Caller) -> Caller:
        return Caller(person.user_id, person.user_id in (0, self._own_user_id))

    @_answers_errors
    async def Ping(self, request: Any, context: Any) -> Any:
        self._caller(context)
        return controller_pb2.PingReply(
            host=self._host,
            cluster=self._engine.configuration.cluster.name,
            now=time.time(),
            start_time=self._engine.start_time,
            version=version.VERSION,
            events=self._engine.journal.seq,
            pid=os.getpid(),
        )

    # Submitting

    @_answers_errors
    async def Submit(self, request: Any, context: Any) -> Any:
        job_id = await self._submit(request, self._person(context))
        return controller_pb2.SubmitReply(job_id=job_id)

    async def _submit(self, request: Any, person: auth.Caller) -> JobId:
        caller = self._as_caller(person)
        spec = self._specification(request)
        if not caller.is_operator:
            # The node gives the job these groups, as root: the credential names them, never the request.
            # The components of a heterogeneous job get them from the first.
            spec = replace(spec, group_id=person.group_id, user_name=person.user_name)
        spec = replace(spec, groups=self._groups.of(spec.user_id, spec.user_name, spec.group_id))
        await self._engine.act(SubmitJob(spec, caller, request.request_id, _components(request)))
        job_id = self._engine.state.requests[request.request_id].job_id
        job = self._engine.state.jobs.get(job_id)
        if job is not None:
            self._check_owner(job_id, caller)
            if not spec.is_batch:
                self._watchers.client_expected(job_id)
        return job_id

    def _specification(self, request: Any) -> JobSpec:
        if not request.request_id:
            raise Refusal(RefusalCode.NOT_SUPPORTED, details=("a submission needs a request id",))
        submission = request.submission
        spec = codec.from_proto(JobSpec, submission.spec)
        return prepare_submission(self._engine, spec, submission.script, submission.environment)

    async def SubmitStream(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Takes as many as come while one transaction is written; answers in order."""
        try:
            person = self._person(context)
        except MinislurmError as error:
            await status.abort(context, error)
        waiting: asyncio.Queue[asyncio.Task[Any] | None] = asyncio.Queue(maxsize=1000)

        async def read() -> None:
            async for request in requests:
                await waiting.put(asyncio.ensure_future(self._stream_reply(request, person)))
            await waiting.put(None)

        reader = asyncio.ensure_future(read())
        try:
            while (task := await waiting.get()) is not None:
                yield await task
        finally:
            reader.cancel()

    async def _stream_reply(self, request: Any, person: auth.Caller) -> Any:
        try:
            return controller_pb2.SubmitReply(job_id=await self._submit(request, person))
        except Refusal as refusal:
            return controller_pb2.SubmitReply(refused=status.refused_message(refusal))

    @_answers_errors
    async def TestOnly(self, request: Any, context: Any) -> Any:
        spec = codec.from_proto(JobSpec, request.submission.spec)
        spec = replace(spec, groups=self._groups.of(spec.user_id, spec.user_name, spec.group_id))
        message = SubmitJob(spec, self._caller(context), components=_components(request))
        return codec.to_proto(
            await test_submission(self._engine.state, self._forecasts, message, time.time())
        )

    # Acting on jobs

    async def _act_on_each(
        self, request: Any, make: Callable[[JobTarget], Message]
    ) -> controller_pb2.ActReply:
        """One unknown id does not spoil the others; the same request id does nothing again."""
        reply = controller_pb2.ActReply()
        repeated = request.request_id in self._engine.state.requests
        for first in range(0, len(request.targets), _CHUNK):
            items = request.targets[first : first + _CHUNK]
            # Together, so that they share a transaction of the journal.
            acts = [] if repeated else [self._engine.act(make(_target(item))) for item in items]
            results = await asyncio.gather(*acts, return_exceptions=True)
            for item, result in itertools.zip_longest(items, results):
                outcome = reply.outcomes.add()
                outcome.target.CopyFrom(item)
                if isinstance(result, Refusal):
                    outcome.refused.CopyFrom(status.refused_message(result))
                elif isinstance(result, BaseException):
                    raise result
        await self._engine.act(RememberRequest(request.request_id))
        return reply

    @_answers_errors
    async def Cancel(self, request: Any, context: Any) -> Any:
        caller = self._caller(context)

        def make(target: JobTarget) -> Message:
            if request.signal:
                return SignalJob(target, caller, request.signal, request.batch_only, request.full)
            if target.step_id is not None:
                return SignalJob(target, caller, 9)
            return CancelJob(target, caller, request.batch_only)

        return await self._act_on_each(request, make)

    @_answers_errors
    async def Hold(self, request: Any, context: Any) -> Any:
        caller = self._caller(context)
        return await self._act_on_each(request, lambda target: HoldJob(target, caller, request.by_user))

    @_answers_errors
    async def Release(self, request: Any, context: Any) -> Any:
        caller = self._caller(context)
        return await self._act_on_each(request, lambda target: ReleaseJob(target, caller))

    @_answers_errors
    async def Requeue(self, request: Any, context: Any) -> Any:
        caller = self._caller(context)
        return await self._act_on_each(request, lambda target: RequeueJob(target, caller, request.hold))

    @_answers_errors
    async def RequestCheckpoint(self, request: Any, context: Any) -> Any:
        caller = self._caller(context)
        return await self._act_on_each(request, lambda target: RequestCheckpoint(target, caller))

    @_answers_errors
    async def UpdateJob(self, request: Any, context: Any) -> Any:
        caller = self._caller(context)
        changes = codec.from_proto(JobChanges, request.changes)
        return await self._act_on_each(request, lambda target: UpdateJob(target, caller, changes))

    @_answers_errors
    async def UpdateNode(self, request: Any, context: Any) -> Any:
        caller = self._caller(context)
        state = request.state if request.HasField("state") else None
        reason = request.reason if request.HasField("reason") else None
        weight = request.weight if request.HasField("weight") else None
        for name in request.nodes:
            await self._engine.act(UpdateNode(NodeName(name), caller, state, reason, weight))
        return controller_pb2.ActReply()

    @_answers_errors
    async def UpdatePartition(self, request: Any, context: Any) -> Any:
        state = PartitionState.__members__.get(request.state)
        if request.state and state is None:
            raise Refusal(RefusalCode.NOT_SUPPORTED)
        caller, settings = self._caller(context), dict(request.settings)
        await self._engine.act(UpdatePartition(request.name, caller, state, settings))
        return controller_pb2.ActReply()

    # Reservations

    @_answers_errors
    async def CreateReservation(self, request: Any, context: Any) -> Any:
        return await reservation_service.create(self._engine, request, self._caller(context))

    @_answers_errors
    async def UpdateReservation(self, request: Any, context: Any) -> Any:
        return await reservation_service.update(self._engine, request, self._caller(context))

    @_answers_errors
    async def DeleteReservation(self, request: Any, context: Any) -> Any:
        return await reservation_service.delete(self._engine, request, self._caller(context))

    @_answers_errors
    async def ListReservations(self, request: Any, context: Any) -> Any:
        self._caller(context)
        return reservation_service.listed_reservations(self._engine.state)

    @_answers_errors
    async def ListLicenses(self, request: Any, context: Any) -> Any:
        self._caller(context)
        return reservation_service.listed_licenses(self._engine.state)

    # Asking

    async def ListJobs(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """In chunks, giving way between them."""
        try:
            self._caller(context)
        except MinislurmError as error:
            await status.abort(context, error)
        query = codec.from_proto(JobQuery, request)
        if query.forecast:
            await self._forecasts.refresh()
        jobs = answers.matching_jobs(self._engine.state, query)
        yield controller_pb2.JobsChunk(now=time.time())
        for first in range(0, len(jobs), _CHUNK):
            yield self._chunk(jobs[first : first + _CHUNK])
            await asyncio.sleep(0)

    def _chunk(self, jobs: list[Any]) -> controller_pb2.JobsChunk:
        now = time.time()
        chunk = controller_pb2.JobsChunk(now=now)
        index_of: dict[int, int] = {}
        for job in jobs:
            index = index_of.get(id(job.spec))
            if index is None:
                index = index_of[id(job.spec)] = len(index_of)
                codec.fill(chunk.specs.add(), job.spec)
            chunk.spec_of.append(index)
            estimate = self._forecasts.known(job.id)
            view = answers.job_view(self._engine.state, self._scheduler, job, now, estimate)
            codec.fill_without(chunk.jobs.add(), view, "job")
            codec.fill_without(chunk.jobs[-1].job, job, "spec")
        return chunk

    @_answers_errors
    async def Explain(self, request: Any, context: Any) -> Any:
        """Everybody sees all jobs, as with squeue."""
        self._caller(context)
        target = _target(request.target)
        job = answers.explained_job(self._engine.state, target)
        task = target.tasks[0] if target.tasks and job.is_array_rest else None
        return codec.to_proto(await self._forecasts.explain(job, task))

    @_answers_errors
    async def ListNodes(self, request: Any, context: Any) -> Any:
        self._caller(context)
        reply = controller_pb2.NodesReply()
        reserved = answers.reserved_nodes(self._engine.state, time.time())
        for node in self._engine.state.nodes.values():
            view = answers.node_view(self._engine.state, node, reserved.get(node.name, ""))
            codec.fill(reply.nodes.add(), view)
        return reply

    @_answers_errors
    async def ListPartitions(self, request: Any, context: Any) -> Any:
        self._caller(context)
        reply = controller_pb2.PartitionsReply()
        for partition in self._engine.state.partitions.values():
            codec.fill(reply.partitions.add(), answers.partition_view(self._engine.state, partition))
        return reply

    @_answers_errors
    async def ShowConfiguration(self, request: Any, context: Any) -> Any:
        self._caller(context)
        state = self._engine.state
        return controller_pb2.ConfigurationReply(
            values=configuration_values(self._engine.configuration, state, self._host),
            boot_time=self._engine.start_time,
            next_job_id=state.next_job_id,
        )

    async def ExportState(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """From the store, by a reader of its own: one moment, though clients are answered meanwhile."""
        try:
            if not self._caller(context).is_operator:
                raise Refusal(RefusalCode.ACCESS)
            async for chunk in exported_state(self._engine.store.path):
                yield chunk
        except MinislurmError as error:
            await status.abort(context, error)

    # Accounts

    @_answers_errors
    async def ShowAccounts(self, request: Any, context: Any) -> Any:
        self._caller(context)
        accounts = self._engine.state.accounts
        return controller_pb2.AccountsReply(
            version=accounts.version,
            records=codec.to_proto(accounts.tree.records()),
            cluster=self._engine.configuration.cluster.name,
            credits=accounts.budgets.credits(accounts.tree, time.time()),
        )

    @_answers_errors
    async def ChangeAccounts(self, request: Any, context: Any) -> Any:
        changes = codec.from_proto(AccountChanges, request.changes)
        caller = self._caller(context)
        await self._engine.act(ChangeAccounts(changes, request.version, caller, request.request_id))
        return controller_pb2.ActReply()

    # Watching, and allocations without a script

    async def WatchJob(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            self._caller(context)
            async for view in self._watchers.views(JobId(request.job_id)):
                yield codec.to_proto(view)
        except MinislurmError as error:
            await status.abort(context, error)

    async def HoldAllocation(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Ends the allocation, after a grace, if the client goes without having let it go."""
        job_id = JobId(request.job_id)
        try:
            caller = self._caller(context)
            self._check_owner(job_id, caller)
            self._watchers.client_came(job_id)
            try:
                async for view in self._watchers.views(job_id):
                    yield codec.to_proto(view)
            finally:
                self._watchers.client_went(job_id, caller)
        except MinislurmError as error:
            await status.abort(context, error)

    def _check_owner(self, job_id: JobId, caller: Caller) -> None:
        job = self._engine.state.jobs.get(job_id)
        if job is None:
            raise Refusal(RefusalCode.INVALID_JOB_ID, job_id=job_id)
        if job.spec.user_id != caller.user_id and not caller.is_operator:
            raise Refusal(RefusalCode.ACCESS, job_id=job_id)

    @_answers_errors
    async def EndAllocation(self, request: Any, context: Any) -> Any:
        message = EndAllocation(
            JobId(request.job_id), self._caller(context), request.exit_code, request.exit_signal
        )
        await self._engine.act(message)
        return controller_pb2.ActReply()

    @_answers_errors
    async def CreateStep(self, request: Any, context: Any) -> Any:
        caller = self._caller(context)
        step_request = codec.from_proto(StepRequest, request.request)
        if not request.request_id:
            raise Refusal(RefusalCode.NOT_SUPPORTED, details=("a step needs a request id",))
        self._check_owner(step_request.job_id, caller)
        await self._engine.act(CreateStep(step_request, caller, request.request_id))
        record = self._engine.state.requests[request.request_id]
        if record.job_id != step_request.job_id:
            raise Refusal(RefusalCode.NOT_SUPPORTED, details=("the request id belongs to another request",))
        return codec.to_proto(self._grant(record.job_id, record.step_id, step_request))

    def _grant(self, job_id: JobId, step_id: StepId, request: StepRequest) -> StepGrant:
        job = self._engine.state.jobs[job_id]
        step = job.steps.get(step_id)
        if not job.state.holds_nodes or step_id >= job.next_step_id:
            raise Refusal(RefusalCode.EXPIRED, job_id=job_id)
        nodes: list[StepNode] = []
        first = 0
        # A step that has ended on its nodes may still have output there that its srun comes back for.
        held = [(part.node, 0) for part in job.allocation]
        layout = held if step is None else zip(step.nodes, step.tasks_per_node, strict=True)
        for name, count in layout:
            facts = self._engine.state.nodes[name].facts
            address = self._engine.state.nodes[name].spec.address or facts.address
            nodes.append(StepNode(name, address, facts.step_port, tuple(range(first, first + count))))
            first += count
        credential = auth.step_token(
            self._key,
            self._engine.configuration.cluster.name,
            auth.StepCredential(job_id, job.run, step_id, job.spec.user_id),
            _STEP_CREDENTIAL_LIFETIME_S,
        )
        return StepGrant(
            job_id=job_id,
            step_id=step_id,
            run=RunNumber(job.run),
            nodes=tuple(nodes),
            credential=credential,
            job=job,
            allocation=job.allocation,
            cpus_per_task=request.cpus_per_task,
        )


def _target(item: Any) -> JobTarget:
    return codec.from_proto(JobTarget, item)


def _components(request: Any) -> tuple[JobSpec, ...]:
    return tuple(codec.from_proto(JobSpec, spec) for spec in request.submission.components)
