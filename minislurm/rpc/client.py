"""A synchronous client of the controller. Importing grpc takes 100 ms, so only what calls imports this.

A changing call carries a request id: if no answer comes, it is tried again by itself with the same id,
and the controller never does the same thing twice.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import grpc

from minislurm.domain.accounts import AccountChanges, AccountTree
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import ControllerUnavailable, Refusal
from minislurm.domain.ids import JobId
from minislurm.domain.job import Job, JobSpec
from minislurm.domain.views import (
    AccountsView,
    ConfigurationView,
    ControllerInfo,
    Explanation,
    JobChanges,
    JobQuery,
    JobTarget,
    JobView,
    LicenseView,
    NodeView,
    Outcome,
    PartitionView,
    ReservationChanges,
    ReservationView,
    StateExport,
    StepGrant,
    StepRequest,
    Submission,
    TestResult,
)
from minislurm.rpc import auth, codec, status
from minislurm.rpc.gen import controller_pb2, controller_pb2_grpc

_OPTIONS = [
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def new_request_id() -> str:
    return secrets.token_hex(12)


class ControllerClient:
    """Raises Refusal, AccessDenied and ControllerUnavailable (rpc/status.py has the table)."""

    def __init__(self, configuration: Configuration) -> None:
        cluster = configuration.cluster
        self._configuration = configuration
        self._channel = grpc.insecure_channel(
            f"{cluster.controller_host}:{cluster.controller_port}", options=_OPTIONS
        )
        self._stub = controller_pb2_grpc.ControllerStub(self._channel)

    def __enter__(self) -> ControllerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    # Calling

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return status.bearer_metadata(auth.credential(self._configuration))

    def _call(self, method: Any, request: Any) -> Any:
        """Tries again while no connection can be made, up to connect_timeout_s, and once more where the
        answer did not come; both are safe, since a request acts once."""
        timers = self._configuration.timers
        give_up = time.monotonic() + timers.connect_timeout_s
        timeouts = 0
        while True:
            try:
                return method(request, timeout=timers.call_timeout_s, metadata=self._metadata())
            except grpc.RpcError as error:
                meant = status.error_of(error)
                if not isinstance(meant, ControllerUnavailable):
                    raise meant from None
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    timeouts += 1
                    if timeouts > 1:
                        raise meant from None
                elif time.monotonic() > give_up:
                    raise meant from None
                else:
                    time.sleep(0.05)

    def _stream(self, method: Any, request: Any, timeout_s: float | None = None) -> Iterator[Any]:
        try:
            # The first message is fetched like a call, so that a controller away is said at once.
            stream = self._opened(method, request, timeout_s)
            yield from stream
        except grpc.RpcError as error:
            raise status.error_of(error) from None

    def _opened(self, method: Any, request: Any, timeout_s: float | None) -> Iterator[Any]:
        give_up = time.monotonic() + self._configuration.timers.connect_timeout_s
        while True:
            stream = method(request, timeout=timeout_s, metadata=self._metadata())
            try:
                first = next(stream, None)
            except grpc.RpcError as error:
                meant = status.error_of(error)
                if not isinstance(meant, ControllerUnavailable) or time.monotonic() > give_up:
                    raise
                time.sleep(0.05)
                continue
            return _chained(first, stream)

    # Submitting

    def ping(self) -> ControllerInfo:
        reply = self._call(self._stub.Ping, controller_pb2.PingRequest())
        return ControllerInfo(
            reply.host, reply.cluster, reply.now, reply.start_time, reply.version, reply.events, reply.pid
        )

    def submit(self, submission: Submission, request_id: str = "") -> JobId:
        request = _submit_request(submission, request_id)
        return JobId(self._call(self._stub.Submit, request).job_id)

    def submit_many(self, submissions: Iterable[Submission]) -> Iterator[JobId | Refusal]:
        """On one stream; answers come in order, each once its job is durable."""
        requests = (_submit_request(submission, "") for submission in submissions)
        try:
            for reply in self._stub.SubmitStream(requests, metadata=self._metadata()):
                yield status.refusal_of(reply.refused) if reply.HasField("refused") else JobId(reply.job_id)
        except grpc.RpcError as error:
            raise status.error_of(error) from None

    def test_only(self, submission: Submission) -> TestResult:
        reply = self._call(self._stub.TestOnly, _submit_request(submission, ""))
        return codec.from_proto(TestResult, reply)

    # Acting

    def cancel(
        self,
        targets: Sequence[JobTarget],
        *,
        signal: int = 0,
        batch_only: bool = False,
        full: bool = False,
    ) -> list[Outcome]:
        request = controller_pb2.CancelRequest(signal=signal, batch_only=batch_only, full=full)
        return self._act(self._stub.Cancel, request, targets)

    def hold(self, targets: Sequence[JobTarget], *, by_user: bool = False) -> list[Outcome]:
        return self._act(self._stub.Hold, controller_pb2.HoldRequest(by_user=by_user), targets)

    def release(self, targets: Sequence[JobTarget]) -> list[Outcome]:
        return self._act(self._stub.Release, controller_pb2.JobsRequest(), targets)

    def requeue(self, targets: Sequence[JobTarget], *, hold: bool = False) -> list[Outcome]:
        return self._act(self._stub.Requeue, controller_pb2.RequeueRequest(hold=hold), targets)

    def request_checkpoint(self, targets: Sequence[JobTarget]) -> list[Outcome]:
        return self._act(self._stub.RequestCheckpoint, controller_pb2.JobsRequest(), targets)

    def update_job(self, targets: Sequence[JobTarget], changes: JobChanges) -> list[Outcome]:
        request = controller_pb2.UpdateJobRequest(changes=codec.to_proto(changes))
        return self._act(self._stub.UpdateJob, request, targets)

    def _act(self, method: Any, request: Any, targets: Sequence[JobTarget]) -> list[Outcome]:
        request.request_id = new_request_id()
        for target in targets:
            codec.fill(request.targets.add(), target)
        reply = self._call(method, request)
        return [
            Outcome(target, status.refusal_of(item.refused) if item.HasField("refused") else None)
            for target, item in zip(targets, reply.outcomes, strict=True)
        ]

    def update_node(
        self,
        names: Sequence[str],
        *,
        state: str | None = None,
        reason: str | None = None,
        weight: int | None = None,
    ) -> None:
        self._call(
            self._stub.UpdateNode,
            controller_pb2.UpdateNodeRequest(
                request_id=new_request_id(), nodes=names, state=state, reason=reason, weight=weight
            ),
        )

    def update_partition(self, name: str, state: str = "", settings: Mapping[str, str] | None = None) -> None:
        """`settings`: `domain/partition_settings.py`."""
        request = controller_pb2.UpdatePartitionRequest(request_id=new_request_id(), name=name, state=state)
        request.settings.update(settings or {})
        self._call(self._stub.UpdatePartition, request)

    def create_reservation(self, changes: ReservationChanges) -> str:
        """Its name."""
        return str(self._call(self._stub.CreateReservation, _reservation_request(changes)).name)

    def update_reservation(self, changes: ReservationChanges) -> None:
        self._call(self._stub.UpdateReservation, _reservation_request(changes))

    def delete_reservation(self, name: str) -> None:
        request = controller_pb2.DeleteReservationRequest(request_id=new_request_id(), name=name)
        self._call(self._stub.DeleteReservation, request)

    # Asking

    def list_reservations(self) -> list[ReservationView]:
        reply = self._call(self._stub.ListReservations, controller_pb2.ReservationsRequest())
        return [codec.from_proto(ReservationView, item) for item in reply.reservations]

    def list_licenses(self) -> list[LicenseView]:
        reply = self._call(self._stub.ListLicenses, controller_pb2.LicensesRequest())
        return [codec.from_proto(LicenseView, item) for item in reply.licenses]

    def list_jobs(self, query: JobQuery | None = None) -> list[JobView]:
        views: list[JobView] = []
        timeout_s = self._configuration.timers.call_timeout_s
        for chunk in self._stream(self._stub.ListJobs, codec.to_proto(query or JobQuery()), timeout_s):
            specs = [codec.from_proto(JobSpec, spec) for spec in chunk.specs]
            for item, index in zip(chunk.jobs, chunk.spec_of, strict=True):
                views.append(_job_view(item, specs[index]))
        return views

    def list_nodes(self) -> list[NodeView]:
        reply = self._call(self._stub.ListNodes, controller_pb2.NodesRequest())
        return [codec.from_proto(NodeView, node) for node in reply.nodes]

    def list_partitions(self) -> list[PartitionView]:
        reply = self._call(self._stub.ListPartitions, controller_pb2.PartitionsRequest())
        return [codec.from_proto(PartitionView, partition) for partition in reply.partitions]

    def show_configuration(self) -> ConfigurationView:
        reply = self._call(self._stub.ShowConfiguration, controller_pb2.ConfigurationRequest())
        return ConfigurationView(dict(reply.values), reply.boot_time, JobId(reply.next_job_id))

    # Accounts

    def show_accounts(self) -> AccountsView:
        reply = self._call(self._stub.ShowAccounts, controller_pb2.AccountsRequest())
        records = codec.from_proto(AccountChanges, reply.records)
        return AccountsView(AccountTree().changed(records), reply.version, reply.cluster, dict(reply.credits))

    def change_accounts(self, changes: AccountChanges, version: int) -> None:
        """`version`: of the tree that the changes were made from; refused if it has changed since."""
        request = controller_pb2.ChangeAccountsRequest(
            request_id=new_request_id(), version=version, changes=codec.to_proto(changes)
        )
        self._call(self._stub.ChangeAccounts, request)

    def explain(self, target: JobTarget) -> Explanation:
        """Why it waits; of an array without a task, why the rest of it does. Raises Refusal."""
        request = controller_pb2.ExplainRequest()
        codec.fill(request.target, target)
        return codec.from_proto(Explanation, self._call(self._stub.Explain, request))

    def export_state(self) -> StateExport:
        """For operators. Raises Refusal."""
        cluster, timeout_s = self._configuration.cluster, self._configuration.timers.call_timeout_s
        export = StateExport(f"the controller of {cluster.name}")
        request = controller_pb2.ExportStateRequest()
        for number, chunk in enumerate(self._stream(self._stub.ExportState, request, timeout_s)):
            if not number:
                export.now, export.snapshot_seq = chunk.now, chunk.snapshot_seq
            for item in chunk.records:
                export.by_kind.setdefault(item.kind, []).append((item.id, item.payload))
            export.since += chunk.events
        return export

    # Watching, and allocations without a script

    def watch_job(self, job_id: JobId) -> Iterator[JobView]:
        """Views at every change, until the job has ended."""
        request = controller_pb2.WatchRequest(job_id=job_id)
        for view in self._stream(self._stub.WatchJob, request):
            yield codec.from_proto(JobView, view)

    def hold_allocation(self, job_id: JobId) -> Iterator[JobView]:
        """As `watch_job`; while it is open the controller knows that the client lives."""
        request = controller_pb2.HoldAllocationRequest(job_id=job_id)
        for view in self._stream(self._stub.HoldAllocation, request):
            yield codec.from_proto(JobView, view)

    def end_allocation(self, job_id: JobId, exit_code: int, exit_signal: int = 0) -> None:
        self._call(
            self._stub.EndAllocation,
            controller_pb2.EndAllocationRequest(
                request_id=new_request_id(), job_id=job_id, exit_code=exit_code, exit_signal=exit_signal
            ),
        )

    def create_step(self, request: StepRequest, request_id: str = "") -> StepGrant:
        """The same request id gives the same step again, with the nodes' addresses of that moment."""
        message = controller_pb2.CreateStepRequest(
            request_id=request_id or new_request_id(), request=codec.to_proto(request)
        )
        return codec.from_proto(StepGrant, self._call(self._stub.CreateStep, message))


def _reservation_request(changes: ReservationChanges) -> controller_pb2.ChangeReservationRequest:
    return controller_pb2.ChangeReservationRequest(
        request_id=new_request_id(), changes=codec.to_proto(changes)
    )


def _submit_request(submission: Submission, request_id: str) -> controller_pb2.SubmitRequest:
    return controller_pb2.SubmitRequest(
        request_id=request_id or new_request_id(), submission=codec.to_proto(submission)
    )


def _job_view(item: Any, spec: JobSpec) -> JobView:
    job = codec.from_proto_with(Job, item.job, spec=spec)
    return codec.from_proto_with(JobView, item, job=job)


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    if first is not None:
        yield first
    yield from rest
