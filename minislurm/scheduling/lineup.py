"""Who is in the queue of a pass: those of the last one, as far as nothing has come of them, and the new ones.

A pass after a mere submission to a full cluster is the most common one by far. If all who waited still wait
for the same, and whoever came asks for more than is free or than the head leaves, its plan is the last one
with them at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from minislurm.scheduling.backfill import runs_past
from minislurm.scheduling.model import PRIORITY, RESOURCES, Plan, RequestClass, Snapshot, Standing, Wait
from minislurm.scheduling.order import Entry, Queue, Ranking, Turn
from minislurm.scheduling.single import fits
from minislurm.scheduling.workspace import Verdicts, Workspace


class Lineup:
    def __init__(self, snapshot: Snapshot, workspace: Workspace, ranking: Ranking) -> None:
        self._snapshot = snapshot
        self._workspace = workspace
        self._ranking = ranking
        #: What is still true of the last pass' queue, and the classes that are not in it.
        self.kept: list[Entry] = []
        self.others: Sequence[RequestClass] = snapshot.classes
        settings, lasting = workspace.lasting
        if lasting and settings is snapshot.settings:
            present = set(map(id, snapshot.classes))
            self.kept = [e for e in lasting if (turn := e[-1]).is_fresh and id(turn.jobs) in present]
            self.others = ()
            if len(self.kept) < len(present):
                known = {id(entry[-1].jobs) for entry in self.kept}
                self.others = [jobs for jobs in snapshot.classes if id(jobs) not in known]
        #: All `Candidate.head` there are, with their partitions.
        self.heads = {(turn := entry[-1]).candidate.head: turn.jobs.partition for entry in self.kept}

    def turn(self, jobs: RequestClass) -> Turn | None:
        """That of the last pass where nothing has come of it. None: the class is empty."""
        turn = self._workspace.turns.get(jobs.key)
        if turn is not None and turn.jobs is jobs and turn.is_fresh:
            turn.begin(self._ranking.line(turn.candidate))
        elif not jobs.jobs:
            return None
        else:
            if turn is not None:
                turn.entry = None  # in which it is itself
            candidate = self._workspace.candidate(jobs)
            turn = Turn(candidate, self._ranking.line(candidate))
            if jobs.key is not None:
                self._workspace.turns[jobs.key] = turn
        self.heads[turn.candidate.head] = jobs.partition
        return turn

    def plan_as_before(self, queue: Queue) -> Plan | None:
        """The last pass' plan, and that those who came since then wait. None: it takes a pass to say so."""
        last, now = self._workspace.verdicts, self._snapshot.now
        if last is None or last.plan is None or not self._is_as_before(last):
            return None
        came: list[tuple[Turn, Wait]] = []
        for jobs in self.others:
            turn = self.turn(jobs)
            wait = self._why_behind(turn, queue, last) if turn is not None else None
            if turn is None or wait is None:
                return None
            came.append((turn, wait))
        for turn, wait in came:
            end = now + turn.limit_s
            known = last.blocked.get(turn.key)
            if known is None or end < known[0]:
                last.blocked[turn.key] = (end, wait)
        entries = sorted((*self.kept, *[queue.entry(turn) for turn, _ in came]), reverse=True)
        self._workspace.lasting = (last.settings, entries)
        standings = [Standing(turn.jobs, turn.priority, turn.position, (wait,)) for turn, wait in came]
        last.plan = Plan(standings=(*last.plan.standings, *standings))
        return last.plan

    def _is_as_before(self, last: Verdicts) -> bool:
        """All of the last plan is still true: nobody has left, and no head should have started by now."""
        snapshot = self._snapshot
        return (
            self._workspace.is_still
            and last.plan is not None
            and last.settings is snapshot.settings
            and not (snapshot.accounts or snapshot.reservations or snapshot.licenses)
            and len(self.kept) == len(last.plan.standings)
            and len(snapshot.classes) < last.settings.backfill_depth
            and all(head.is_planned_after(snapshot.now) for head in last.heads.values())
        )

    def _why_behind(self, turn: Turn, queue: Queue, last: Verdicts) -> Wait | None:
        """Why it waits, where that is seen at a glance: it comes after all the others, one of whom is the
        head of its partition, and asks for more than is free, or for more than that head leaves."""
        candidate = turn.candidate
        if not (
            candidate.misfit is None
            and candidate.head in last.heads
            and turn.startable > 0
            and queue.entry(turn) is turn.entry
            and turn.entry > self.kept[0]
        ):
            return None
        if last.capacity.is_short_of(turn.jobs.partition, candidate.demand):
            return RESOURCES
        reservation, end = last.heads[candidate.head].reservation, self._snapshot.now + turn.limit_s
        if candidate.single is None or reservation is None or not runs_past(end, reservation.time):
            return None
        return None if fits(candidate.single, reservation.beside) else PRIORITY
