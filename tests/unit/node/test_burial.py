"""What a killed shepherd left behind is found, and nothing of others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from minislurm.domain.ids import JobId, NodeName, RunNumber
from minislurm.node.burial import left_behind
from minislurm.node.environment import Place, step_marks
from minislurm.node.messages import RunKey

KEY = RunKey(JobId(1), RunNumber(1))


def marks(spool: str, step: str = "0", key: RunKey = KEY) -> dict[str, str]:
    return step_marks(key, step, Place(NodeName("n1"), "cluster", "", spool))


@contextmanager
def a_process(environment: dict[str, str]) -> Iterator[int]:
    words = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has its environment by now
        yield process.pid
        process.kill()


def test_only_the_step_of_this_daemon_is_found() -> None:
    """Every cluster has a job 1, and several node daemons may be on one host."""
    with ExitStack() as stack:
        mine = stack.enter_context(a_process(marks("/spool/n1")))
        for other in (marks("/spool/n2"), marks("/elsewhere/n1"), marks("/spool/n1", "1")):
            stack.enter_context(a_process(other))
        assert left_behind(marks("/spool/n1"), (), "") == [mine]
