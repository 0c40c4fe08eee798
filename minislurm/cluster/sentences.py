"""The state of a job in sentences for people: what it waits for, or what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from minislurm.cluster import dependencies
from minislurm.cluster.eligibility import give_up_time, requeue_time
from minislurm.cluster.licenses import free_licenses
from minislurm.cluster.runs import array_slots
from minislurm.cluster.state import ClusterState
from minislurm.domain.configuration import Partition
from minislurm.domain.dependencies import format_dependency
from minislurm.domain.hostlist import compress
from minislurm.domain.job import Dependency, DependencyKind, Job
from minislurm.domain.node import Node
from minislurm.domain.states import JobState, NodeState, Reason
from minislurm.domain.times import format_duration, format_time
from minislurm.scheduling.features import parse
from minislurm.scheduling.model import Wait
from minislurm.scheduling.needs import bounds_of

#: Reasons of a job in the queue, as sentences.
_REASONS = {
    Reason.RESOURCES: "What is free now does not hold it.",
    Reason.PRIORITY: "What is free now would hold it, but jobs before it are to have that.",
    Reason.PARTITION_DOWN: "Its partition is down: nothing starts there.",
    Reason.PARTITION_INACTIVE: "Its partition is inactive: nothing starts there.",
    Reason.PARTITION_CONFIG: "The nodes of its partition could not hold it even if all were idle.",
    Reason.BAD_CONSTRAINTS: "Its partition has not enough nodes that its constraints allow.",
    Reason.NODES_UNAVAILABLE: "It needs nodes that are down, drained or not responding.",
    Reason.TOPOLOGY: "No domain of its partition could hold it as it asks for, even if all were idle.",
    Reason.RESERVATION: "Its reservation does not let it start now.",
    Reason.MAINTENANCE: "It would run into a maintenance of nodes that it needs.",
    Reason.NODES_RESERVED: "It would run into the reservation of nodes that it needs.",
    Reason.LICENSES: "There are not enough free licenses.",
    Reason.ACCOUNT_NOT_ALLOWED: "Its partition does not take jobs of its account.",
    Reason.QOS_NOT_ALLOWED: "Its partition does not take jobs of its QOS.",
    Reason.INVALID_QOS: "The QOS of its partition is not there, so that nothing starts in it.",
    Reason.ARRAY_TASK_LIMIT: "As many tasks of its array run as its limit (%) allows.",
}


def life(state: ClusterState, job: Job, now: float) -> tuple[str, ...]:
    """Of a job that is not in the queue."""
    if job.state is JobState.PENDING:
        return tuple(_not_eligible(state, job, now))
    if job.state.is_final:
        code = f"exit code {job.exit_code}:{job.exit_signal}"
        reason = "" if job.reason is Reason.NONE else f", {job.reason.value}"
        return (f"It ended at {format_time(job.end_time)}: {job.state.value}{reason}, {code}.",)
    where = f"on {compress([part.node for part in job.allocation])}"
    if job.state is JobState.CONFIGURING:
        waits = [part.node for part in job.allocation if part.node not in job.prepared_nodes]
        return (
            f"It is being started {where}.",
            f"Nodes that have not prepared it yet: {compress(waits) or 'none'}.",
        )
    if job.state is JobState.COMPLETING:
        return (f"It is ending; nodes that have not let go yet: {compress(job.open_nodes) or 'none'}.",)
    since = f"It has been {job.state.value} since {format_time(job.start_time)} {where}."
    if not job.time_limit_s:
        return (since, "It has no time limit.")
    return (since, f"Its time limit ends it at {format_time(job.expected_end_time)}.")


def _not_eligible(state: ClusterState, job: Job, now: float) -> Iterator[str]:
    if job.partition not in state.partitions:
        yield f"Its partition {job.partition} has left the configuration."
    if job.held:
        who = "its user" if job.held == "user" else "an administrator"
        yield f"It is held by {who}; `scontrol release {job.id}` lets it go."
        if job.reason not in (Reason.NONE, Reason.HELD_USER, Reason.HELD_ADMIN):
            yield f"It was held because of {job.reason.value}."
    for clause in job.dependencies:
        yield _clause(state, job, clause, now)
    for other in state.components(job):
        if other.state is JobState.COMPLETING:
            yield f"The last run of its component {other.het_job_id}+{other.het_job_offset} is still ending."
    if job.dependency_any and len(job.dependencies) > 1:
        yield "Any one of these is enough."
    if requeue_time(state, job) > now:
        yield f"It may not begin before {format_time(requeue_time(state, job))}."


def _clause(state: ClusterState, job: Job, clause: Dependency, now: float) -> str:
    text = format_dependency(clause)
    if dependencies.judge(state, job, clause, now) is dependencies.Verdict.NEVER:
        ended = state.jobs.get(clause.job_id)
        how = f": job {clause.job_id} ended {ended.state.value}" if ended is not None else ""
        return f"It depends on {text}, which can never be met{how}."
    records = dependencies.open_records(state, job, clause)
    if clause.kind is DependencyKind.SINGLETON:
        ids = ", ".join(str(record.id) for record in records[:5])
        more = f" and {len(records) - 5} more" if len(records) > 5 else ""
        return f"It waits for the end of its user's earlier jobs of the same name: {ids}{more}."
    due = dependencies.due_time(state, clause)
    if due is not None:
        return f"It depends on {text}, which is met at {format_time(due)}."
    states = ", ".join(dict.fromkeys(record.state.value for record in records))
    return f"It depends on {text}: job {clause.job_id} is {states or 'ended'}."


def waiting(state: ClusterState, job: Job, wait: Wait, now: float) -> Iterator[str]:
    """Of a job in the queue, as the pass explained it."""
    if wait.reason in (Reason.PARTITION_TIME_LIMIT, Reason.PARTITION_NODE_LIMIT):
        yield _over_partition(job, state.partitions[job.partition], wait.reason)
    else:
        yield _REASONS.get(wait.reason, f"A limit is in the way: {wait.reason.value}.")
    if wait.reason is Reason.NODES_UNAVAILABLE:
        yield from _unusable(state, job)
    if wait.reason is Reason.TOPOLOGY and job.request.switches:
        until = format_time(job.eligible_time + job.request.switches_wait_s)
        yield f"It asks for {job.request.switches} switches at most; from {until} on any will do."
    if wait.detail:
        yield f"{wait.detail[0].upper()}{wait.detail[1:]}."
    if job.claims:
        yield "Others give way to it, or have: what becomes free is kept for it."
    elif job.restart_reason == "preempt" and job.preemptor:
        yield f"Its last run gave way to job {job.preemptor}; `minislurm why --preempted {job.id}` says why."
    if wait.reason is Reason.ARRAY_TASK_LIMIT:
        yield f"{array_slots(state, job)} more may start."
    if wait.reason is Reason.LICENSES:
        free = free_licenses(state)
        for license in job.request.licenses:
            have = free.get(license.name, 0)
            yield f"License {license.name}: {have} free, it asks for {license.count}."
    if job.bid:
        yield _credits(state, job, now)
    if wait.reason in (Reason.RESERVATION, Reason.MAINTENANCE, Reason.NODES_RESERVED):
        yield from _reservations(state, job, now)


def _over_partition(job: Job, partition: Partition, reason: Reason) -> str:
    """What it asks for, and what there is."""
    name, request = partition.name, job.request
    if reason is Reason.PARTITION_TIME_LIMIT:
        limit_s = job.time_limit_s
        asked = f"Its time limit is {format_duration(limit_s)}" if limit_s else "It has no time limit"
        return f"{asked}; jobs of partition {name} have at most {format_duration(partition.max_time_s)}."
    if 0 < request.nodes_max < partition.min_nodes:
        asked = f"It takes {_nodes(request.nodes_max)} at most"
        return f"{asked}; a job of partition {name} has {partition.min_nodes} at least."
    needs = _nodes(bounds_of(request, partition).nodes_min)
    allowed = "" if partition.max_nodes is None else f" and gives a job {partition.max_nodes} at most"
    return f"It needs {needs}; partition {name} has {len(partition.nodes)}{allowed}."


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


#: So many nodes that cannot be used are named.
_NAMED = 5


def _wanted(state: ClusterState, job: Job) -> Iterator[Node]:
    """The nodes of its partition that its constraints allow."""
    request = job.request
    test = parse(request.features)
    excluded = {*request.excluded_nodes, *job.avoided_nodes}
    exactly = request.required_nodes if len(request.required_nodes) >= request.nodes_min else ()
    for name in exactly or state.partitions[job.partition].nodes:
        node = state.nodes[name]
        if name not in excluded and test(frozenset(node.spec.features)):
            yield node


def _unusable(state: ClusterState, job: Job) -> Iterator[str]:
    """Which of them are not to be had, and why."""
    nodes = [node for node in _wanted(state, job) if not node.is_usable]
    for node in nodes[:_NAMED]:
        if node.drained:
            what = "drained"
        elif node.state is NodeState.DOWN:
            what = "down"
        else:
            what = "not responding" if not node.responding else "ending runs that it came back with"
        yield f"Node {node.name} is {what}{f': {node.reason}' if node.reason else ''}."
    if len(nodes) > _NAMED:
        yield f"So are {len(nodes) - _NAMED} more."


def _credits(state: ClusterState, job: Job, now: float) -> str:
    """What a bid is worth: as much as there is to pay it with."""
    accounts = state.accounts
    payer = accounts.tree.payer(job.spec.account)
    if not payer:
        return f"Its bid of {job.bid:.10g} counts for nothing: no account above it has a budget."
    left, record = accounts.budgets.credits(accounts.tree, now)[payer], accounts.tree.accounts[payer]
    text = f"account {payer} has {left:.2f} credits left of its budget of {record.budget:.10g}"
    if left > 0:
        return f"It bids {job.bid:.10g} for a GPU- or CPU-hour; {text}."
    period_s = record.budget_period_s
    again = f"; it is given anew at {format_time((now // period_s + 1) * period_s)}" if period_s else ""
    return f"Its bid of {job.bid:.10g} counts for nothing: {text}{again}."


def _reservations(state: ClusterState, job: Job, now: float) -> Iterator[str]:
    own = job.request.reservation
    if own and own not in state.reservations:
        yield f"Its reservation {own} is gone."
    nodes = {node.name for node in _wanted(state, job)}
    end = now + job.time_limit_s if job.time_limit_s else float("inf")
    for reservation in state.reservations.values():
        reaches = reservation.start_time < end and not nodes.isdisjoint(reservation.nodes)
        if reservation.name == own or (not own and reaches):
            yield (
                f"Reservation {reservation.name}: {compress(reservation.nodes)}, "
                f"{format_time(reservation.start_time)} to {format_time(reservation.end_time)}."
            )


def bounds(job: Job, task: int | None = None) -> Iterator[str]:
    """When waiting is over, and what else it is bound by. `task`: of an array that is meant."""
    last = give_up_time(job)
    if last < float("inf"):
        why = "its deadline" if job.deadline else "--max-wait"
        yield f"If it has not started by {format_time(last)}, it ends because of {why}."
    if task in job.pending_tasks and task != job.pending_tasks[0]:
        yield f"Tasks of its array that come before it: {job.pending_tasks.index(task)}."
    if job.array_limit and job.is_array_rest:
        yield f"Of the array, so many tasks may run at a time: {job.array_limit}."
    if job.avoided_nodes:
        yield f"A launch failed on {compress(job.avoided_nodes)}; it goes elsewhere."


def estimate(start: float, nodes: tuple[str, ...], now: float) -> str:
    """When a forecast has it start."""
    soon = "now" if start <= now else f"in {format_duration(start - now)}, at {format_time(start)},"
    return f"Expected to start {soon} on {compress(nodes)}."
