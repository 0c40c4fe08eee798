"""The client against a real server on loopback that answers as it is told: errors, retries, request ids."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from msgspec.structs import replace

from minislurm.domain.configuration import AuthSection, ClusterSection, Configuration, TimersSection
from minislurm.domain.errors import (
    AccessDenied,
    ControllerUnavailable,
    MinislurmError,
    Refusal,
    RefusalCode,
)
from minislurm.domain.ids import JobId, StepId
from minislurm.domain.job import Job
from minislurm.domain.views import JobChanges, JobQuery, JobTarget, JobView, Submission
from minislurm.rpc import auth, codec, status
from minislurm.rpc.client import ControllerClient
from minislurm.rpc.gen import controller_pb2, controller_pb2_grpc
from tests.builders import a_spec

SUBMISSION = Submission(a_spec(), b"#!/bin/sh\n")


class Controller(controller_pb2_grpc.ControllerServicer):
    """Notes each request; `answers` are what it does to the next calls, one each."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.tokens: list[str] = []
        self.answers: list[Callable[[Any], Any]] = []
        self.released = threading.Event()

    def _next(self, request: Any, context: Any, usual: Any) -> Any:
        self.requests.append(request)
        self.tokens.append(status.bearer_token(context.invocation_metadata()))
        return self.answers.pop(0)(context) if self.answers else usual

    def Submit(self, request: Any, context: Any) -> Any:
        return self._next(request, context, controller_pb2.SubmitReply(job_id=7))

    def SubmitStream(self, requests: Any, context: Any) -> Any:
        for number, request in enumerate(requests, 1):
            self.requests.append(request)
            if number == 2:
                refused = status.refused_message(Refusal(RefusalCode.INVALID_PARTITION))
                yield controller_pb2.SubmitReply(refused=refused)
            else:
                yield controller_pb2.SubmitReply(job_id=number)

    def Cancel(self, request: Any, context: Any) -> Any:
        reply = controller_pb2.ActReply()
        for item in request.targets:
            outcome = reply.outcomes.add()
            outcome.target.CopyFrom(item)
            if item.job_id == 99:
                refusal = Refusal(RefusalCode.INVALID_JOB_ID, details=("a", "b"), job_id=99)
                outcome.refused.CopyFrom(status.refused_message(refusal))
        return self._next(request, context, reply)

    def UpdateJob(self, request: Any, context: Any) -> Any:
        return self._next(request, context, controller_pb2.ActReply())

    def ListJobs(self, request: Any, context: Any) -> Any:
        answer = self._next(request, context, None)
        if answer is not None:
            yield answer
            return
        yield controller_pb2.JobsChunk(now=1.0)
        for first in (1, 3):
            chunk = controller_pb2.JobsChunk(now=1.0)
            codec.fill(chunk.specs.add(), a_spec(f"from {first}"))
            for number in (first, first + 1):
                view = JobView(Job(JobId(number), a_spec()), reason="Priority")
                codec.fill_without(chunk.jobs.add(), view, "job")
                codec.fill_without(chunk.jobs[-1].job, view.job, "spec")
                chunk.spec_of.append(0)
            yield chunk


def fails(code: grpc.StatusCode, text: str = "no") -> Callable[[Any], Any]:
    return lambda context: context.abort(code, text)


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
def configuration(tmp_path: Path, controller: Controller) -> Iterator[Configuration]:
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
    controller_pb2_grpc.add_ControllerServicer_to_server(controller, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    key = str(tmp_path / "auth.key")
    auth.make_key(key)
    yield Configuration(
        cluster=ClusterSection(name="c", controller_port=port, state_dir=str(tmp_path)),
        auth=AuthSection(key_file=key),
        timers=TimersSection(connect_timeout_s=0.5, call_timeout_s=5.0),
    )
    controller.released.set()
    server.stop(0).wait()


@pytest.fixture
def client(configuration: Configuration) -> Iterator[ControllerClient]:
    with ControllerClient(configuration) as opened:
        yield opened


# The usual


def test_submit_carries_everything_and_a_credential(
    client: ControllerClient, controller: Controller, configuration: Configuration
) -> None:
    assert client.submit(SUBMISSION) == 7
    (request,) = controller.requests
    assert codec.from_proto(Submission, request.submission) == SUBMISSION
    assert request.request_id
    verifier = auth.Verifier(auth.load_key(configuration.key_file), "c")
    verifier.verify_user(controller.tokens[0])


def test_each_call_has_a_request_id_of_its_own(client: ControllerClient, controller: Controller) -> None:
    client.submit(SUBMISSION)
    client.submit(SUBMISSION)
    client.submit(SUBMISSION, "mine")
    ids = [request.request_id for request in controller.requests]
    assert len(set(ids)) == 3
    assert ids[2] == "mine"


def test_many_on_one_stream(client: ControllerClient, controller: Controller) -> None:
    answers = list(client.submit_many([SUBMISSION] * 3))
    assert (answers[0], answers[2]) == (1, 3)
    assert isinstance(answers[1], Refusal)
    assert len({request.request_id for request in controller.requests}) == 3


def test_outcomes_of_each_target(client: ControllerClient, controller: Controller) -> None:
    targets = [JobTarget(JobId(5), (1, 2)), JobTarget(JobId(99)), JobTarget(JobId(6), step_id=StepId(0))]
    outcomes = client.cancel(targets, signal=10, full=True)
    assert [outcome.target for outcome in outcomes] == targets
    assert [outcome.refusal is None for outcome in outcomes] == [True, False, True]
    refusal = outcomes[1].refusal
    assert refusal is not None
    assert (refusal.code, refusal.details, refusal.job_id) == (RefusalCode.INVALID_JOB_ID, ("a", "b"), 99)
    sent = controller.requests[0]
    assert (sent.signal, sent.full, sent.batch_only) == (10, True, False)
    assert sent.targets[2].HasField("step_id"), "step 0 is a step"
    assert not sent.targets[1].HasField("step_id")


def test_jobs_come_in_chunks_with_their_specifications(client: ControllerClient) -> None:
    views = client.list_jobs(JobQuery())
    assert [view.job.id for view in views] == [1, 2, 3, 4]
    assert [view.job.spec.name for view in views] == ["from 1", "from 1", "from 3", "from 3"]
    assert views[0].job.spec is views[1].job.spec, "decoded once"
    assert views[0].reason == "Priority"


# Errors


@pytest.mark.parametrize("code", list(RefusalCode))
def test_every_refusal_crosses(code: RefusalCode) -> None:
    refusal = Refusal(code, details=("one", "two"), job_id=3)
    back = status.refusal_of(status.refused_message(refusal))
    assert (back.code, back.details, back.job_id, str(back)) == (code, ("one", "two"), 3, str(refusal))


def test_a_refusal_that_this_version_does_not_know() -> None:
    message = controller_pb2.Refused(code="FROM_THE_FUTURE", job_id=3)
    assert status.refusal_of(message).code is RefusalCode.NOT_SUPPORTED


def test_a_refused_call(client: ControllerClient, controller: Controller) -> None:
    def refuse(context: Any) -> Any:
        message = status.refused_message(Refusal(RefusalCode.INVALID_PARTITION, details=("why",)))
        context.set_trailing_metadata(((status.REFUSED_KEY, message.SerializeToString()),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no")

    controller.answers = [refuse]
    with pytest.raises(Refusal, match="Invalid partition name specified") as caught:
        client.submit(SUBMISSION)
    assert caught.value.details == ("why",)
    assert len(controller.requests) == 1, "a refusal is an answer"


def test_a_credential_that_is_not_accepted(client: ControllerClient, controller: Controller) -> None:
    controller.answers = [fails(grpc.StatusCode.UNAUTHENTICATED, "expired")]
    with pytest.raises(AccessDenied, match="Invalid credential: expired"):
        client.submit(SUBMISSION)


def test_a_controller_that_fails_is_said_to(client: ControllerClient, controller: Controller) -> None:
    controller.answers = [fails(grpc.StatusCode.INTERNAL, "a bug")]
    with pytest.raises(MinislurmError, match="the controller failed: a bug"):
        client.submit(SUBMISSION)
    assert len(controller.requests) == 1


# Nobody there, or too late


def test_nobody_there_is_said_at_once(configuration: Configuration) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody can come between
        port = taken.getsockname()[1]
        absent = replace(configuration, cluster=replace(configuration.cluster, controller_port=port))
        with ControllerClient(absent) as client:
            for call in (lambda: client.submit(SUBMISSION), client.list_jobs, client.list_nodes):
                started = time.monotonic()
                with pytest.raises(ControllerUnavailable, match="Unable to contact slurm controller"):
                    call()
                assert time.monotonic() - started < 2.0


def test_a_controller_that_restarts_is_tried_again(client: ControllerClient, controller: Controller) -> None:
    controller.answers = [fails(grpc.StatusCode.UNAVAILABLE), fails(grpc.StatusCode.UNAVAILABLE)]
    assert client.submit(SUBMISSION) == 7
    ids = [request.request_id for request in controller.requests]
    assert len(ids) == 3
    assert len(set(ids)) == 1, "the same request each time: it acts once"


def test_a_list_is_tried_again_too(client: ControllerClient, controller: Controller) -> None:
    controller.answers = [fails(grpc.StatusCode.UNAVAILABLE)]
    assert len(client.list_jobs()) == 4


def test_an_answer_that_does_not_come(configuration: Configuration, controller: Controller) -> None:
    """Asked once more with the same id; the controller answers what it did then."""
    impatient = replace(configuration, timers=replace(configuration.timers, call_timeout_s=0.3))

    def late(context: Any) -> Any:
        controller.released.wait(10)
        return controller_pb2.SubmitReply(job_id=1)

    controller.answers = [late]
    with ControllerClient(impatient) as client:
        assert client.submit(SUBMISSION) == 7
        controller.answers = [late, late]
        with pytest.raises(ControllerUnavailable, match="no answer in time"):
            client.submit(SUBMISSION)
    ids = [request.request_id for request in controller.requests]
    assert (len(ids), len(set(ids))) == (4, 2)


def test_text_that_cannot_be_sent_never_leaves(client: ControllerClient, controller: Controller) -> None:
    with pytest.raises(UnicodeEncodeError):
        client.update_job([JobTarget(JobId(1))], JobChanges(comment="\udcff"))
    assert not controller.requests
