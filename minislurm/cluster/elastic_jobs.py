"""Which jobs may be elastic. Every node of such a job brings the same, so that one more or less changes
nothing for the others."""

from __future__ import annotations

from collections.abc import Iterator

from minislurm.cluster.messages import SubmitJob
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import JobSpec
from minislurm.domain.resources import DOUBLING, ResourceRequest, size_within

MODES = ("restart", "in-place")


def refuse_elastic(spec: JobSpec) -> Refusal | None:
    if not spec.elastic:
        is_meant = spec.request.nodes_step or spec.elastic_signal
        return _refusal("a step or a signal without --elastic") if is_meant else None
    if spec.elastic not in MODES:
        return _refusal(f"--elastic={spec.elastic}: there are {', '.join(MODES)}")
    if not spec.is_batch:
        return _refusal("only batch jobs can be elastic")
    if spec.elastic == "restart" and spec.requeue is False:
        return _refusal("--elastic restarts the job: it cannot be combined with --no-requeue")
    if spec.elastic_signal and spec.elastic != "in-place":
        return _refusal("--elastic-signal needs --elastic=in-place")
    if not 0 <= spec.elastic_signal <= 64 or spec.request.nodes_step < DOUBLING:
        return _refusal("no such signal or step")
    return refuse_elastic_request(spec.request)


def refuse_elastic_components(message: SubmitJob) -> Refusal | None:
    if any(spec.elastic for spec in (message.spec, *message.components)):
        return _refusal("a heterogeneous job cannot be elastic")
    return None


def refuse_elastic_request(request: ResourceRequest) -> Refusal | None:
    problem = next(_problems(request), "")
    return _refusal(problem) if problem else None


def _problems(request: ResourceRequest) -> Iterator[str]:
    if not request.nodes_max or request.nodes_max <= request.nodes_min:
        yield "--elastic needs a range of nodes: --nodes=MIN-MAX"
    elif size_within(request, request.nodes_max) <= request.nodes_min:
        yield "no step of --elastic-step fits between the least and the most nodes"
    if not request.tasks_follow_nodes:
        yield "--elastic cannot be combined with --ntasks: use --ntasks-per-node"
    if request.gpus_total:
        yield "--elastic cannot be combined with --gpus: use --gpus-per-node"
    if request.required_nodes:
        yield "--elastic cannot be combined with --nodelist"
    if request.segment:
        yield "--elastic cannot be combined with --segment"
    if "[" in request.features or "*" in request.features:
        yield "--elastic cannot be combined with counts and alternatives in --constraint"


def _refusal(problem: str) -> Refusal:
    return Refusal(RefusalCode.INVALID_ELASTIC, details=(problem,))
