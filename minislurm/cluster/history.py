"""How long a user's jobs ran, for orders that go by expected run times.

The mean of the last two run times of similar jobs of the same user predicts better than the user's own
estimate (Tsafrir, Etsion, Feitelson, "Backfilling Using System-Generated Predictions Rather Than User Runtime
Estimates", IEEE TPDS 18(6), 2007). Similar is of the same name; where there is none, of the same size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Struct

from minislurm.domain.job import EndCause, Job
from minislurm.domain.resources import ResourceRequest
from minislurm.domain.states import Reason

#: The run times that count.
_LAST = 2
#: So many records at most; then the tenth that is oldest is forgotten.
MOST_RECORDS = 20_000

HistoryKey = tuple[int, str]


class HistoryRecord(Struct):
    """The last runs of a user's jobs that are similar to each other. `similar`: ``name NAME``, ``size …``."""

    user_id: int
    similar: str
    #: Seconds, the newest last.
    run_times_s: tuple[float, ...] = ()
    #: When the newest one ended.
    time: float = 0.0


@dataclass(slots=True)
class History:
    records: dict[HistoryKey, HistoryRecord] = field(default_factory=dict)
    #: Those that differ from the stored snapshot.
    touched: set[HistoryKey] = field(default_factory=set, compare=False)
    #: Counts the changes, so that what was worked out can be known to be old.
    version: int = field(default=0, compare=False)

    def note(self, job: Job, end_time: float) -> None:
        """A run has ended. Only one that went its own way says how long such a job takes."""
        if job.end_cause not in (EndCause.EXIT, EndCause.TIME_LIMIT) or not job.start_time:
            return
        if job.reason is Reason.JOB_LAUNCH_FAILURE:
            return
        run_s = max(0.0, end_time - job.start_time - job.suspended_time_s)
        for similar in (_named(job.name), _sized(job.request)):
            key = job.spec.user_id, similar
            record = self.records.get(key)
            if record is None:
                record = self.records[key] = HistoryRecord(*key)
            record.run_times_s = (*record.run_times_s, run_s)[-_LAST:]
            record.time = end_time
            self.touched.add(key)
        self.version += 1
        if len(self.records) > MOST_RECORDS:
            self._forget_oldest()

    def expected_s(self, user_id: int, name: str, request: ResourceRequest, time_limit_s: float) -> float:
        """The mean of the last similar runs, within the time limit (0: none); 0 where there are none."""
        record = self.records.get((user_id, _named(name))) or self.records.get((user_id, _sized(request)))
        if record is None:
            return 0.0
        mean_s = sum(record.run_times_s) / len(record.run_times_s)
        # 0 would stand for "not known".
        return max(min(mean_s, time_limit_s or mean_s), 1e-3)

    def _forget_oldest(self) -> None:
        # By the records alone, so that a restart forgets the same ones.
        oldest: Iterable[HistoryKey] = sorted(self.records, key=lambda key: (self.records[key].time, key))
        for key in list(oldest)[: MOST_RECORDS // 10]:
            del self.records[key]
            self.touched.add(key)


def _named(name: str) -> str:
    return f"name {name}"


@lru_cache(maxsize=1024)
def _sized(request: ResourceRequest) -> str:
    gpus = request.gpus_total or request.gpus_per_node * request.nodes_min
    gpus = max(gpus, request.gpus_per_task * request.tasks)
    return (
        f"size {request.nodes_min}x{request.tasks}x{request.cpus_per_task} {gpus} {request.gpu_type}".strip()
    )
