"""What the benchmarks need of a batch system: one interface for minislurm and for a real Slurm."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from msgspec import Struct

NODES, CPUS, GPUS = 8, 16, 8
GRACE_S = 10


class Work(Struct, frozen=True):
    """Jobs to submit. `tasks` > 0: one job array."""

    script: str = "#!/bin/sh\ntrue\n"
    tasks: int = 0
    held: bool = False
    whole_cluster: bool = False
    #: One node, and nobody beside it.
    whole_node: bool = False
    #: "urgent": its jobs take the nodes of others, who have `GRACE_S` to save.
    partition: str = "batch"


class Cluster(ABC):
    """A running cluster."""

    #: Seconds that a submission costs before anything reaches the controller (the command's own start-up).
    submission_overhead_s = 0.0

    @abstractmethod
    def submit(self, work: Work) -> int:
        """One submission, acknowledged; the job's id."""

    @abstractmethod
    def submit_many(self, work: Work, count: int) -> None:
        """`count` separate jobs, as fast as the system's clients can."""

    @abstractmethod
    def pending_and_running(self) -> tuple[int, int]:
        """Numbers of jobs (array tasks count singly)."""

    @abstractmethod
    def cancel_all(self) -> None:
        """And waits until nothing is left."""

    @abstractmethod
    def known(self, ids: Sequence[int]) -> int:
        """How many of these jobs the controller knows."""

    @abstractmethod
    def command(self, *words: str) -> Sequence[str]:
        """The argument list that runs one of Slurm's commands."""

    @abstractmethod
    def environment(self) -> Mapping[str, str]: ...

    @abstractmethod
    def daemons(self) -> dict[str, list[int]]:
        """Process ids of "controller" and "node" (all nodes' daemons; helpers of a daemon follow it)."""

    @abstractmethod
    def kill_controller(self) -> None:
        """SIGKILL, and gone."""

    @abstractmethod
    def start_controller(self) -> None:
        """Starts the controller's process and returns at once."""

    @abstractmethod
    def answers(self) -> bool:
        """Does the controller answer a question about its jobs?"""

    def run(self, *words: str) -> float:
        """Seconds that a command takes; it must succeed."""
        start = time.perf_counter()
        subprocess.run(
            self.command(*words),
            env=dict(self.environment()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=True,
        )
        return time.perf_counter() - start

    def wait_for(self, job_id: int) -> None:
        """Until the only job has ended, all its tasks included."""
        self.wait_until_idle(poll_s=0.1)

    def wait_until_idle(self, timeout_s: float = 600.0, poll_s: float = 0.02) -> None:
        await_true(lambda: self.pending_and_running() == (0, 0), timeout_s, "the cluster to be idle", poll_s)


class System(ABC):
    name = ""

    @abstractmethod
    def cluster(self) -> AbstractContextManager[Cluster]:
        """Starts a cluster of NODES nodes, and ends everything of it at the end."""


def await_true(test: Callable[[], bool], timeout_s: float, what: str, poll_s: float = 0.02) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not test():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(poll_s)


def chunks(total: int, parts: int) -> Iterator[int]:
    """`total` in `parts` nearly equal numbers."""
    for i in range(parts):
        yield total // parts + (i < total % parts)
