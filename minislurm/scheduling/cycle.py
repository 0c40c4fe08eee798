"""One scheduling pass: order -> filter -> place -> backfill.

Pure: a snapshot in, a plan out; no clock, no randomness, the same snapshot gives the same plan. Classes of
equal jobs are merged by the order of their next job; the first job that cannot start blocks its class.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from minislurm.domain.configuration import Partition
from minislurm.scheduling.accounts import AccountsPass
from minislurm.scheduling.auction import with_prices
from minislurm.scheduling.chances import Chances
from minislurm.scheduling.draft import Draft, asked_of
from minislurm.scheduling.lineup import Lineup
from minislurm.scheduling.model import (
    PRIORITY,
    TASK_LIMIT,
    Placement,
    Plan,
    Resize,
    Snapshot,
    Wait,
)
from minislurm.scheduling.order import Queue, Ranking, Turn
from minislurm.scheduling.ranks import Ranks
from minislurm.scheduling.work import finished
from minislurm.scheduling.workspace import Workspace

#: Turns that cost next to nothing, between two yields.
_GLANCES = 50


def schedule(snapshot: Snapshot, workspace: Workspace | None = None, *, explain: bool = False) -> Plan:
    """What starts now and why the rest waits."""
    return finished(steps(snapshot, workspace, explain=explain))


def steps(
    snapshot: Snapshot, workspace: Workspace | None = None, *, explain: bool = False
) -> Generator[None, None, Plan]:
    """The same pass in units of about a millisecond at most, so that a caller can do other things between.

    `workspace`: that of the last pass, if there is one. `explain`: counts by what they lack the nodes that
    cannot take a job.
    """
    workspace = workspace if workspace is not None else Workspace()
    yield from workspace.load(snapshot)
    accounts = AccountsPass(snapshot.accounts, snapshot.settings, snapshot)
    ranking = Ranking(snapshot, accounts, len(workspace.table.inventory), workspace.cpus)
    draft, queue = Draft(), Queue(accounts, Ranks(snapshot, accounts, workspace.total_of))
    lineup = Lineup(snapshot, workspace, ranking)
    if not explain and (as_before := lineup.plan_as_before(queue)) is not None:
        return as_before
    cycle = Chances(snapshot, workspace, accounts, queue, lineup.heads, draft, explain=explain)

    turns: list[Turn] = []
    for number, jobs in enumerate(lineup.others, start=1):
        turn = lineup.turn(jobs)
        if turn is None:
            continue
        misfit = cycle.misfit(turn.candidate)
        if misfit is None:
            turns.append(turn)
        else:
            draft.wait(turn, misfit)
        if number % _GLANCES == 0:
            yield
    cycle.tell_users_apart(turns, lineup.kept)
    yield from cycle.load_strategies()
    yield from queue.load(turns, lineup.kept)
    workspace.lasting = (snapshot.settings, queue.lasting)
    turns.clear()  # so that they are let go of one by one, not all at the end

    glances = 0
    while not cycle.is_over and (turn_now := queue.pop()) is not None:
        turn = turn_now
        if (behind := cycle.why_behind_heads(turn)) is not None:
            draft.wait(turn, behind)
            glances += 1
            if glances % _GLANCES:
                continue
        elif (limit := (yield from _start(turn, cycle, queue, draft))) is not None:
            # Its account's, user's or QOS' limit, not the nodes: it holds nobody else up. But there may be
            # room under it when others have given way.
            held = yield from cycle.make_way(turn)
            draft.wait(turn, *((held, limit) if held is not None else (limit,)))
        elif (turn.is_startable and queue.is_overtaken(turn)) or (yield from _settle(turn, cycle, draft)):
            queue.add(turn)
        yield
    #: Of whom nobody knows whether they could use what is left.
    skipped: dict[str, Partition] = {}
    for turn in queue.rest():
        wait = cycle.why_beyond_depth(turn)
        if wait is PRIORITY:
            skipped[turn.jobs.partition.name] = turn.jobs.partition
        draft.wait(turn, wait)
        yield
    draft.preemptions, draft.wake_time = cycle.preemptions, cycle.victims.wake_time
    if cycle.surplus.matters:
        yield from _resize(cycle, skipped, draft)
    plan = draft.plan()
    if workspace.verdicts is not None and not (plan.placements or plan.limited or plan.resizes):
        workspace.verdicts.plan = plan
    return with_prices(plan, draft.bids, accounts, workspace.filters) if draft.bids else plan


def _start(turn: Turn, cycle: Chances, queue: Queue, draft: Draft) -> Generator[None, None, Wait | None]:
    """Starts what it can of the next job; the limit that keeps the rest of it from starting, if one does."""
    if turn.jobs.parts:
        return (yield from _start_components(turn, cycle, draft))
    while turn.is_startable:
        limit = cycle.limit(turn)
        shares = cycle.find(turn) if limit is None else None
        if shares is None:
            return limit
        # Whole nodes may come to more than was asked for.
        limit = cycle.limit(turn, shares)
        if limit is not None:
            return limit
        draft.start(turn, (yield from cycle.place(turn, shares)))
        yield
        if queue.is_overtaken(turn):
            return None  # it has had its share for now
    return None


def _start_components(turn: Turn, cycle: Chances, draft: Draft) -> Generator[None, None, Wait | None]:
    """The same of a heterogeneous job: all of it or nothing."""
    if not turn.is_startable:
        return None
    limit = cycle.limit_of_all(turn)
    found = cycle.find_all(turn) if limit is None else None
    if found is None:
        return limit
    limit = cycle.limit_of_all(turn, found)
    if limit is None:
        allocation, *others = yield from cycle.place_all(turn, found)
        parts = [
            Placement(jobs.jobs[0].job_id, None, part, asked=asked_of(jobs))
            for jobs, part in zip(turn.jobs.parts, others, strict=True)
        ]
        draft.start(turn, allocation, tuple(parts))
        yield
    return limit


def _resize(cycle: Chances, skipped: Mapping[str, Partition], draft: Draft) -> Generator[None, None, None]:
    """Elastic runs get what is left, but for the nodes of partitions where not everybody was looked at."""
    draft.resizes += cycle.handbacks
    for grower in cycle.growth.growers():
        if not cycle.surplus.is_asked(grower.run):
            joining = yield from cycle.grow(grower, skipped.values())
            if joining:
                draft.resizes.append((Resize(grower.run.job_id, grower.run.run, joining),))
        yield
    draft.stays = cycle.growth.stays
    draft.wake_time = min(draft.wake_time, cycle.growth.wake_time, cycle.surplus.wake_time)


def _settle(turn: Turn, cycle: Chances, draft: Draft) -> Generator[None, None, bool]:
    """Says why the next job waits, where it does. True: those behind it come later, each in its own place."""
    if turn.startable > 0:
        wait = yield from cycle.block(turn)
        for _ in range(1, turn.startable):
            if not cycle.is_done_with(turn):
                yield from cycle.block(turn)  # a task of the same array
        if cycle.is_done_with(turn):
            draft.wait(turn, wait, *cycle.why_behind(turn, wait))
            return False
        turn.note(wait)
    elif turn.first_blocked >= 0:
        turn.note(TASK_LIMIT)
    elif not turn.is_complete:
        draft.limit(turn)
    if turn.advance():
        return True
    if turn.waits:
        draft.wait(turn)
    return False
