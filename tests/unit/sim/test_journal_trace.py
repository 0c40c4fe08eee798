"""A controller's journal as a trace: the jobs that were, and played again the same starts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from minislurm.cluster.apply import apply
from minislurm.cluster.events import Event
from minislurm.cluster.messages import CancelJob, HoldJob, PurgeDue, RequeueJob
from minislurm.cluster.state import ClusterState
from minislurm.domain.errors import ConfigurationError
from minislurm.domain.job import Dependency, DependencyKind
from minislurm.domain.views import JobTarget
from minislurm.journal.encoding import decode, encode
from minislurm.journal.records import changed_records
from minislurm.journal.store import Batch, Store, StoreView
from minislurm.sim import cluster_file, journal_trace, trace_file
from minislurm.sim import main as command
from minislurm.sim.replay import replay
from minislurm.sim.trace import TraceError, TraceJob
from minislurm.sim.virtual_cluster import EPOCH
from tests.builders import a_configuration, a_request
from tests.unit.controller.histories import a_history, write
from tests.unit.sim.test_live import OPERATOR, Real

WHOLE = a_request(exclusive=True)


class Journaled(Real):
    def __init__(self, *arguments: object, **more: object) -> None:
        self.events: list[bytes] = []
        super().__init__(*arguments, **more)  # type: ignore[arg-type]

    def tell(self, message: object) -> object:  # type: ignore[override]
        self._record = self.note
        return super().tell(message)  # type: ignore[arg-type]

    def note(self, event: Event) -> None:
        self.events.append(encode(event))


def journal_of(real: Journaled, path: Path, *, keep: int = 100_000, fold: int = 0) -> Path:
    """`fold`: after so many events the journal was folded; `keep`: events kept behind that."""
    store, state = Store(str(path), keep_events=keep), ClusterState()
    for seq, payload in enumerate(real.events, 1):
        apply(state, decode(payload))
        snapshot = changed_records(state, seq, []) if seq == fold else None
        store.write(Batch([(seq, payload)], snapshot=snapshot))
    store.close()
    return path


def read(real: Journaled, folder: Path, **more: int) -> dict[str, TraceJob]:
    return {job.name: job for job in trace_file.read(journal_of(real, folder / "j.db", **more)).jobs}


@pytest.mark.parametrize("fold", [0, 20])
def test_jobs_as_they_were(fold: int, tmp_path: Path) -> None:
    real = Journaled(a_configuration(1), share=0.5)
    real.submit(name="a", request=WHOLE, time_limit_s=100.0, user_name="ann", account="lab")
    real.advance(EPOCH + 10)
    real.submit(request=WHOLE, time_limit_s=30.0, dependencies=(Dependency(DependencyKind.AFTER_OK, 1),))
    real.submit(request=WHOLE, time_limit_s=20.0, array_tasks=(1, 2))
    real.submit(request=WHOLE, time_limit_s=20.0, begin_time=EPOCH + 500)
    real.advance(EPOCH + 10_000)
    real.tell(PurgeDue())
    assert not real.state.jobs, "all are forgotten"
    jobs = read(real, tmp_path, fold=fold)
    assert {name: (job.submit_s - EPOCH, job.run_s, job.limit_s) for name, job in jobs.items()} == {
        "1": (0, 50, 100),
        "2": (50, 15, 30),
        "3_1": (10, 10, 20),
        "3_2": (10, 10, 20),
        "4": (500, 10, 20),
    }
    first = jobs["1"]
    assert (first.user, first.account, first.partition) == ("ann", "lab", "batch")
    assert first.spec is not None
    assert first.spec.request == WHOLE
    assert jobs["2"].spec is not None
    assert not jobs["2"].spec.dependencies


def test_what_has_not_ended_counts_as_long_as_its_limit(tmp_path: Path) -> None:
    real = Journaled(a_configuration(1), share=0.5)
    for limit_s in (100.0, 60.0, 0.0):
        real.submit(request=WHOLE, time_limit_s=limit_s)
    held = real.submit(request=WHOLE, time_limit_s=5.0)
    real.tell(HoldJob(JobTarget(held), OPERATOR))
    cancelled = real.submit(request=WHOLE, time_limit_s=5.0)
    real.tell(CancelJob(JobTarget(cancelled), OPERATOR))
    waits_still = real.submit(request=WHOLE, time_limit_s=5.0, begin_time=EPOCH + 9999)
    real.advance(EPOCH + 20)
    workload = trace_file.read(journal_of(real, tmp_path / "j.db"))
    assert {job.name: job.run_s for job in workload.jobs} == {"1": 100, "2": 60, str(held): 5}
    assert waits_still == 6
    assert set(workload.notes) == {
        "jobs that have not ended count as long as their time limits: 3",
        "jobs that have not ended and have no time limit are left out: 1",
        "jobs that ended without a run are left out: 1",
        "jobs that may not start yet (held, begin time, dependency) are left out: 1",
    }


def test_what_is_no_longer_in_the_journal_is_said(tmp_path: Path) -> None:
    real = Journaled(a_configuration(1), share=0.5)
    for _ in range(6):
        real.submit(request=WHOLE, time_limit_s=10.0)
        real.advance(real.now + 1000)
        real.tell(PurgeDue())
    last = len(real.events)
    path = journal_of(real, tmp_path / "j.db", keep=12, fold=last)
    workload = trace_file.read(path)
    assert 0 < len(workload.jobs) < 6
    begin = last - 12 + 1
    assert workload.notes == (
        f"the journal begins with event {begin}: jobs that were forgotten before are not in it",
    )


def test_without_events_there_is_the_state(tmp_path: Path) -> None:
    real = Journaled(a_configuration(1), share=0.5)
    for _ in range(3):
        real.submit(request=WHOLE, time_limit_s=10.0)
    real.advance(EPOCH + 1000)
    path = journal_of(real, tmp_path / "j.db", keep=0, fold=len(real.events))
    with StoreView(str(path)) as view:
        assert not list(view.events(0))
    jobs = trace_file.read(path).jobs
    assert [(job.name, job.submit_s - EPOCH, job.run_s) for job in jobs] == [
        ("1", 0, 5),
        ("2", 0, 5),
        ("3", 0, 5),
    ]


def test_a_requeued_job_counts_from_when_it_first_could_start(tmp_path: Path) -> None:
    real = Journaled(a_configuration(1), share=0.5)
    job = real.submit(request=WHOLE, time_limit_s=100.0)
    real.advance(EPOCH + 80)
    real.tell(RequeueJob(JobTarget(job), OPERATOR))
    real.duration_of = lambda job: 7.0
    real.advance(EPOCH + 1000)
    (again,) = read(real, tmp_path).values()
    assert (again.submit_s - EPOCH, again.run_s) == (0, 7)


@pytest.mark.parametrize("seed", range(6))
def test_played_again_jobs_start_when_they_did(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    configuration = a_configuration(4, cpus=4, gpus=2, racks=2)
    real = Journaled(configuration, share=0.5)
    for _ in range(30):
        request = a_request(chance.randint(1, 3), gpus_per_node=chance.randint(0, 2))
        real.submit(request=request, time_limit_s=float(chance.randint(5, 60)))
        real.advance(real.now + chance.choice([0, 0, 3, 15]))
    real.advance(real.now + 10_000)
    path = journal_of(real, tmp_path / "j.db", fold=chance.choice([0, 50]))
    workload = trace_file.read(path)
    again = replay(workload, cluster_file.read(f"journal:{path}"))
    starts = {outcome.trace.name: outcome.runs[0].start_s for outcome in again.outcomes}
    assert starts == real.placed
    assert len(starts) == 30


@pytest.mark.parametrize("seed", range(8))
def test_any_journal_can_be_read(seed: int, tmp_path: Path) -> None:
    """Requeues, lost nodes, updates, arrays of which tasks go their own ways."""
    store = Store(str(tmp_path / "j.db"), keep_events=100)
    cluster = a_history(seed)
    write(cluster, store, {len(cluster.journal) // 2})
    store.close()
    workload = journal_trace.read(tmp_path / "j.db")
    names = [job.name for job in workload.jobs]
    assert len(set(names)) == len(names)
    assert all(job.run_s > 0 and job.spec is not None and not job.spec.is_array for job in workload.jobs)
    ended = {
        job.id
        for job in cluster.state.jobs.values()
        if job.state.is_final and job.end_time > job.start_time and not job.is_array_task
    }
    assert {str(job_id) for job_id in ended} <= set(names)


def test_the_cluster_of_a_journal_has_what_was_found(tmp_path: Path) -> None:
    real = Journaled(a_configuration(2, gpus=2, racks=2))
    path = journal_of(real, tmp_path / "j.db")
    configuration = cluster_file.read(f"journal:{path}", ("scheduler.order=sjf", "nodes.n1.weight=7"))
    assert [(spec.name, spec.cpus, spec.weight) for spec in configuration.nodes] == [
        ("n1", 8, 7),
        ("n2", 8, 1),
    ]
    assert configuration.scheduler.order == "sjf"
    assert [domain.nodes for domain in configuration.topology] == [("n1",), ("n2",)]


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    with pytest.raises(TraceError, match=r"x\.db: "):
        trace_file.read(tmp_path / "x.db")
    with pytest.raises(ConfigurationError, match=r"journal:.*none\.db"):
        cluster_file.read(f"journal:{tmp_path}/none.db")


def test_the_command_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = Journaled(a_configuration(1), share=0.5)
    for _ in range(3):
        real.submit(request=WHOLE, time_limit_s=100.0)
    real.advance(EPOCH + 1000)
    path = journal_of(real, tmp_path / "journal.db")
    arguments = ["--trace", str(path), "--cluster", f"journal:{path}", "--policy", "easy"]
    assert command.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["jobs", "3"]
    assert lines[3].split()[-1] == "50.0"
