"""`minislurm simulate --from-cluster`: the live queue played forward, as it is and with changes.

The controller gives out what it has stored (for operators); all else happens here, on copies. Nothing on the
cluster changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from minislurm.cluster.state import ClusterState
from minislurm.domain import configuration_file
from minislurm.domain.errors import AccessDenied, Refusal, RefusalCode
from minislurm.domain.views import StateExport
from minislurm.sim.live import LONGEST_S, NO_CHANGE, Future, RunTimes, play
from minislurm.sim.metrics import measure
from minislurm.sim.simulation import Measured
from minislurm.sim.what_if import WhatIf, variants


class Question(Struct, frozen=True):
    """`policies`: names; each is a variant of its own, with the changes of `what_if`."""

    what_if: WhatIf = WhatIf()
    policies: tuple[str, ...] = ()
    run_times: RunTimes = RunTimes()
    horizon_s: float = LONGEST_S


class Answer(Struct, frozen=True):
    """The first variant is the cluster as it is. `taken`: when the state was (Unix seconds)."""

    cluster: str
    taken: float
    variants: tuple[Measured, ...]
    futures: tuple[Future, ...]
    #: What the user should know of how it came about.
    notes: tuple[str, ...] = ()


def fetch() -> StateExport:
    """Of the cluster that the user's configuration names. Raises MinislurmError."""
    from minislurm.rpc.client import ControllerClient

    with ControllerClient(configuration_file.load()) as client:
        try:
            return client.export_state()
        except Refusal as refusal:
            if refusal.code is not RefusalCode.ACCESS:
                raise
            raise AccessDenied(
                "--from-cluster: the whole state is for operators (root, and the user that minislurmctld "
                "runs as); squeue --start says when your jobs will start"
            ) from None


def answer(
    export: StateExport,
    question: Question,
    progress: Callable[[str, int, int], None] = lambda name, ended, jobs: None,
) -> Answer:
    """Raises MinislurmError for a change that cannot be had, before anything is played. `progress` is told
    the variant's name, and how many of how many jobs are over."""
    from minislurm.journal.records import load

    first, _ = load(export)
    columns = variants(question.what_if, question.policies)
    changes = [NO_CHANGE, *(what_if.on(first, rule) for rule, what_if in columns[1:])]
    notes = tuple(_notes(first, question))
    measured, futures = [], []
    for (rule, _), change in zip(columns, changes, strict=True):
        # Each is played on a state of its own, read anew.
        state, _ = load(export)
        tell = partial(progress, rule.name)
        future = play(state, export.now, change, question.run_times, question.horizon_s, tell)
        futures.append(future)
        measured.append(Measured(rule, future.result, measure(future.result)))
    name = first.configuration.cluster.name
    return Answer(name, export.now, tuple(measured), tuple(futures), notes)


def _notes(state: ClusterState, question: Question) -> Sequence[str]:
    notes = []
    idle = sorted(node.name for node in state.nodes.values() if not node.is_usable)
    if idle:
        notes.append(f"nodes that are down, drained or silent stay so: {len(idle)}, {idle[0]} among them")
    unlimited = [job for job in state.jobs.values() if not job.state.is_final and not job.time_limit_s]
    endless = [job for job in unlimited if question.run_times.of(state.history, job) == float("inf")]
    if endless:
        some = f"{len(endless)}, {endless[0].id} among them"
        notes.append(f"jobs without a time limit never end here: {some}")
    return notes
