"""`check(state)` asserts every invariant. Tests call it after each step; a failure is a bug, never a wish."""

from __future__ import annotations

from collections import Counter

from minislurm.cluster.accounts import jobs_in
from minislurm.cluster.budgets import rate_of
from minislurm.cluster.queue import looks_of
from minislurm.cluster.snapshot import availability, run_of
from minislurm.cluster.spares import request_of_run
from minislurm.cluster.state import ClusterState
from minislurm.domain import tres
from minislurm.domain.account_check import problems
from minislurm.domain.checkpoint import RECORDS_KEPT
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.resources import share_on_node
from minislurm.domain.states import JobState
from minislurm.scheduling.limits import Charged, Ledger


def check(state: ClusterState) -> None:
    """Raises AssertionError naming the broken invariant."""
    for job in state.jobs.values():
        _check_job(state, job)
    _check_nodes(state)
    _check_queue(state)
    _check_indexes(state)
    _check_kept(state)
    _check_claims(state)
    _check_accounts(state)
    _check_het_jobs(state)
    _check_checkpoints(state)


def _check_job(state: ClusterState, job: Job) -> None:
    assert job.id < state.next_job_id, f"{job.id}: id not below the next one"
    assert state.jobs[job.id] is job
    assert 0 <= job.price <= job.bid or not job.state.holds_nodes, f"{job.id}: pays more than it bids"
    if job.state is JobState.PENDING:
        assert not job.allocation, f"{job.id}: pending and holding nodes"
        assert not (job.held and job.eligible_time), f"{job.id}: held and eligible"
    if job.state.holds_nodes:
        assert job.allocation, f"{job.id}: {job.state.value} without nodes"
        assert job.run > 0, f"{job.id}: holds nodes without a run"
        assert not job.pending_tasks, f"{job.id}: an undivided array holds nodes"
    if job.state is JobState.COMPLETING:
        assert job.open_nodes, f"{job.id}: completing on no node"
        assert job.end_state is not None
        assert job.end_state.is_final
    else:
        assert not job.open_nodes, f"{job.id}: open nodes while {job.state.value}"
    if job.state is not JobState.COMPLETING:
        assert not job.replacing, f"{job.id}: keeps nodes while {job.state.value}"
    if not job.state.holds_nodes:
        assert not job.spares, f"{job.id}: spares while {job.state.value}"
    if job.state.is_final:
        assert job.end_time, f"{job.id}: ended without a time"
    if job.state in (JobState.CONFIGURING, JobState.RUNNING):
        _check_gang(job)
    if job.is_resizing:
        _check_resize(job)


def _check_gang(job: Job) -> None:
    """Whole or not at all: the allocation is what was asked for."""
    request = request_of_run(job)
    names = [part.node for part in job.parts]
    assert len(set(names)) == len(names), f"{job.id}: a node twice"
    assert len(names) >= request.nodes_min, f"{job.id}: fewer nodes than the gang needs"
    if request.nodes_max:
        assert len(names) - len(job.leaving) <= request.nodes_max, f"{job.id}: more nodes than asked for"
    assert sum(part.tasks for part in job.parts) >= request.tasks, f"{job.id}: tasks without a place"
    for part in job.parts:
        assert part.tasks >= 1, f"{job.id}: a node without a task"
        assert part.cpu_count >= part.tasks * request.cpus_per_task, f"{job.id}: too few CPUs on {part.node}"
        share = share_on_node(request, part.tasks)
        assert part.gpu_share_milli == share, f"{job.id}: another share of a GPU on {part.node}"
        if share:
            assert part.gpu_count == 1, f"{job.id}: shares on {part.gpu_count} GPUs of {part.node}"
            continue
        needed = max(request.gpus_per_node, part.tasks * request.gpus_per_task)
        assert part.gpu_count >= needed, f"{job.id}: too few GPUs on {part.node}"
    if request.gpus_total:
        assert sum(p.gpu_count for p in job.parts) >= request.gpus_total, f"{job.id}: too few GPUs"


def _check_resize(job: Job) -> None:
    """Only an elastic run that is there changes its size, one way at a time, and within its bounds."""
    assert job.is_elastic, f"{job.id}: resized without being elastic"
    names = {part.node for part in job.allocation}
    joining = {part.node for part in job.joining}
    assert not names & joining, f"{job.id}: joins nodes that it has"
    assert names >= set(job.leaving), f"{job.id}: leaves nodes that it has not"
    if job.resizes_in_place:
        assert job.state in (JobState.RUNNING, JobState.COMPLETING), (
            f"{job.id}: {job.state.value} and resizing"
        )
    else:
        is_asked = job.state is JobState.RUNNING and job.gives_way
        assert is_asked or job.state is JobState.COMPLETING, f"{job.id}: {job.state.value}, about to restart"
    if job.state is JobState.RUNNING:
        assert not (joining and job.leaving), f"{job.id}: grows and shrinks"
        left = len(names) - len(job.leaving)
        assert left >= job.request.nodes_min, f"{job.id}: shrinks below its minimum"
        assert not joining or left + len(joining) <= job.request.nodes_max, f"{job.id}: beyond its maximum"


def _check_nodes(state: ClusterState) -> None:
    """Nothing is given twice, and what is used is what the runs hold."""
    cpus: Counter[NodeName] = Counter()
    gpus: Counter[NodeName] = Counter()
    shares: Counter[tuple[NodeName, int]] = Counter()
    memory: Counter[NodeName] = Counter()
    jobs: dict[NodeName, set[int]] = {name: set() for name in state.nodes}
    for job in state.jobs.values():
        if not job.state.holds_nodes:
            continue
        for part in job.held_parts:
            assert not cpus[part.node] & part.cpus, f"{job.id}: a CPU of {part.node} given twice"
            assert not gpus[part.node] & part.gpus or (
                part.gpu_share_milli and shares[part.node, part.gpus.bit_length() - 1]
            ), f"{job.id}: a GPU of {part.node} given twice"
            if part.gpu_share_milli:
                shares[part.node, part.gpus.bit_length() - 1] += part.gpu_share_milli
            cpus[part.node] |= part.cpus
            gpus[part.node] |= part.gpus
            memory[part.node] += part.memory_mib
            jobs[part.node].add(job.id)
    for name, node in state.nodes.items():
        assert node.cpus_used == cpus[name], f"{name}: CPUs in use differ from its runs'"
        assert node.gpus_used == gpus[name], f"{name}: GPUs in use differ from its runs'"
        of_node = {gpu: milli for (owner, gpu), milli in shares.items() if owner == name}
        assert node.gpu_shares == of_node, f"{name}: shares of GPUs in use differ from its runs'"
        assert all(milli <= 1000 for milli in of_node.values()), f"{name}: more than a whole GPU given"
        assert node.memory_used_mib == memory[name], f"{name}: memory in use differs from its runs'"
        assert node.jobs == jobs[name], f"{name}: list of jobs differs"
        assert not node.cpus or not node.cpus_used >> node.cpus, f"{name}: a CPU it does not have"
        assert not node.gpus_used >> node.gpu_count, f"{name}: a GPU it does not have"


def _check_queue(state: ClusterState) -> None:
    assert state.queue.looks == looks_of(state.configuration), "classes of the queue: orders"
    eligible = {job.id for job in state.jobs.values() if state.is_eligible(job)}
    assert set(state.queue.places) == eligible, "queue differs from the eligible jobs"
    listed = 0
    for key, queued in state.queue.classes.items():
        assert queued.members == sorted(queued.members), "a class out of order"
        rests = {job_id for _, job_id in queued.members if state.jobs[job_id].is_array_rest}
        assert queued.array_rests == rests, "array rests of a class differ"
        for eligible_time, job_id in queued.members:
            job = state.jobs[job_id]
            assert state.queue.key_of(job) == key, f"{job_id}: in the wrong class"
            assert job.eligible_time == eligible_time
            listed += 1
    assert listed == len(eligible), "a job queued twice"


def _check_kept(state: ClusterState) -> None:
    for name, piece in state.kept.nodes.items():
        assert piece == availability(state.nodes[name]), f"{name}: changed since the last snapshot"
    for partition, kinds in state.kept.kinds.items():
        had = {(node.cpus, node.memory_mib, node.gpus, node.spec.features) for node in kinds}
        nodes = [state.nodes[node] for node in state.partitions[partition].nodes]
        has = {(node.cpus, node.memory_mib, node.gpus, node.spec.features) for node in nodes}
        assert has == had, f"{partition}: kinds of nodes differ"
    for job_id, run in state.kept.running.items():
        assert run == run_of(state, state.jobs[job_id]), f"{job_id}: changed since the last snapshot"
    for key, queued in state.queue.classes.items():
        if queued.view is not None and not queued.array_rests:
            members = [(job.eligible_time, job.job_id) for job in queued.view.jobs]
            assert (queued.view.request, members) == (key.request, queued.members), "a class has changed"


def _check_accounts(state: ClusterState) -> None:
    accounts = state.accounts
    submitted: Counter[Charged] = Counter()
    ledger = Ledger(accounts.tree)
    for job in () if accounts.tree.is_empty else state.jobs.values():
        submitted[accounts.charged_of(job)] += jobs_in(job)
        if job.state.holds_nodes:
            ledger.charge(accounts.charged_of(job), tres.as_dict(job.allocated_tres))
    assert +submitted == accounts.submitted, "numbers of submitted jobs differ"
    assert ledger.uses == accounts.limits.ledger.uses, "what runs by account differs"
    assert state.queue.by_account is not accounts.tree.is_empty, "classes of the queue"
    for key in ledger.uses:
        assert key.kind != "user" or (key.name, key.user) in accounts.usage, f"{key}: runs without usage"
    rates: Counter[str] = Counter()
    for job in state.jobs.values():
        payer = accounts.tree.payer(job.spec.account) if job.state.holds_nodes and job.price else ""
        if payer:
            rates[payer] += rate_of(job)
    assert +rates == Counter(accounts.budgets.rates), "what accounts pay differs from their runs' prices"
    assert rates.keys() <= accounts.budgets.spending.keys(), "runs are paid for without a record"
    found = next(problems(accounts.tree), "")
    assert not found, f"accounts: {found}"


def _check_indexes(state: ClusterState) -> None:
    assert state.active == {j.id for j in state.jobs.values() if j.state.holds_nodes}, "active jobs differ"
    elastic = {j.id for j in state.jobs.values() if j.state.holds_nodes and j.is_elastic}
    assert state.elastic == elastic, "elastic jobs differ"
    assert set(state.ended) == {j.id for j in state.jobs.values() if j.state.is_final}, "ended jobs differ"
    for target, waiting in state.dependents.items():
        for job_id in waiting:
            clauses = state.jobs[job_id].dependencies
            assert any(c.job_id == target for c in clauses), f"{job_id}: does not depend on {target}"
    for summary in state.arrays.values():
        for job_id in summary.live:
            assert not state.jobs[job_id].state.is_final, f"{job_id}: ended but live in its array"
            assert state.jobs[job_id].array_job_id == summary.id
    for (array_id, task_id), job_id in state.tasks.items():
        job = state.jobs[job_id]
        assert (job.array_job_id, job.array_task_id) == (array_id, task_id), f"{job_id}: wrong task index"
    uses: Counter[str] = Counter()
    for job in state.jobs.values():
        uses.update(h for h in (job.spec.script_hash, job.spec.environment_hash) if h)
    assert dict(uses) == state.blob_uses, "counts of stored scripts differ"


def _check_claims(state: ClusterState) -> None:
    """Licenses, reservations, and nodes that belong to one user."""
    used: Counter[str] = Counter()
    for job_id in state.active:
        for license in state.jobs[job_id].request.licenses:
            used[license.name] += license.count
    assert +used == Counter(state.licenses_used), "licenses in use differ from their jobs'"
    for name, reservation in state.reservations.items():
        assert reservation.name == name
        assert reservation.nodes, f"reservation {name}: of no nodes"
        assert reservation.start_time < reservation.end_time, f"reservation {name}: ends before it starts"
        assert reservation.users or reservation.accounts, f"reservation {name}: nobody's"
    for node in state.nodes.values():
        jobs = [state.jobs[job_id] for job_id in node.jobs]
        if any(job.request.exclusive_user is not None for job in jobs):
            assert len({job.spec.user_id for job in jobs}) == 1, f"{node.name}: not of one user alone"


def _check_het_jobs(state: ClusterState) -> None:
    """No component runs or waits without the others; none outlives the leader."""
    live = (JobState.CONFIGURING, JobState.RUNNING)
    ids: dict[JobId, list[JobId]] = {}
    for job in state.jobs.values():
        if job.is_component:
            ids.setdefault(job.het_job_id, []).append(job.id)
    assert {leader: tuple(sorted(own)) for leader, own in ids.items()} == state.het_jobs, "components differ"
    for leader_id in ids:
        leader = state.jobs[leader_id]
        for job in state.components(leader)[1:]:
            assert job.id == leader.id + job.het_job_offset, f"{job.id}: not in a row with its leader"
            if job.state in live:
                assert leader.state in live, (
                    f"{job.id}: {job.state.value} while its leader is {leader.state.value}"
                )
                assert job.run == leader.run, f"{job.id}: of another run than its leader"
            elif job.state is JobState.PENDING:
                assert leader.state not in live, f"{job.id}: left behind by its leader"
                assert not leader.state.is_final, f"{job.id}: waits without its leader"
            elif job.state.is_final:
                assert leader.state is not JobState.PENDING, f"{job.id}: ended, but its leader waits"
            else:
                lost = leader.state.is_final and job.requeue_cause
                assert not lost, f"{job.id}: comes back without its leader"


def _check_checkpoints(state: ClusterState) -> None:
    """Only what runs is asked for a checkpoint; records are those of the newest, in their order."""
    asked = {job.id for job in state.jobs.values() if job.gives_way}
    assert asked == state.giving_way, "runs that give way differ"
    for job in state.jobs.values():
        assert not job.checkpoint_requested or job.state is JobState.RUNNING, (
            f"{job.id}: asked for a checkpoint while {job.state.value}"
        )
        order = [(one.run, one.time, one.path) for one in job.checkpoints]
        assert order == sorted(order), f"{job.id}: checkpoints out of order"
        assert len({one.path for one in job.checkpoints}) == len(order), f"{job.id}: a checkpoint twice"
        assert len(order) <= (job.spec.checkpoint_keep or RECORDS_KEPT), f"{job.id}: too many checkpoints"
        assert all(one.run <= job.run for one in job.checkpoints), f"{job.id}: a checkpoint of no run of it"
