#!/usr/bin/env python3
"""A training with PyTorch, preempted three times, its node killed once, moved to another rack: are its
weights in the end, bit for bit, those of one that nobody disturbed, and how many steps were computed twice?

Needs an interpreter with PyTorch: this one, or the one that MINISLURM_TORCH_PYTHON names. Starts a cluster of
its own (four nodes in two racks, on loopback, in a temporary folder) and ends it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "scripts" / "examples"
PREEMPTIONS = 3
#: Of the training (scripts/examples/torch_training.py): between two checkpoints that nobody asked for.
INTERVAL = 25


class Trial:
    def __init__(self, folder: Path, python: str, steps: int) -> None:
        self.folder = folder
        self._state = folder / "cluster"
        programs = folder / "bin"
        programs.mkdir()
        (programs / "python3").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        (programs / "python3").chmod(0o755)
        foreign = ("SLURM", "SBATCH", "MINISLURM")
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self._environment.update(
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            PYTHONPATH=str(ROOT),
            EXAMPLES=str(EXAMPLES),
            MINISLURM_CONF=str(self._state / "minislurm.toml"),
        )
        self._job_environment = {
            **self._environment,
            "PATH": f"{programs}:{self._environment['PATH']}",
            "STEPS": str(steps),
        }

    def run(self, *words: str, job: bool = False) -> str:
        environment = self._job_environment if job else self._environment
        done = subprocess.run(words, env=environment, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self) -> None:
        settings = (
            "partitions.urgent.nodes=ALL",
            "partitions.urgent.priority_tier=10",
            "preemption.mode=requeue",
            "preemption.grace_s=30",
            "timers.kill_wait_s=2",
            "timers.heartbeat_interval_s=1",
            "timers.node_suspect_s=2",
            "timers.node_timeout_s=4",
        )
        words = [word for value in settings for word in ("--set", value)]
        size = ("--nodes", "4", "--cpus", "2", "--racks", "2", "--state-dir", str(self._state))
        self.run("minislurm", "up", *size, *words)

    def down(self) -> None:
        self.run("scancel", "--me")
        self.run("minislurm", "down", "--state-dir", str(self._state))

    # Jobs

    def train(self, *options: str) -> int:
        return int(self.run("sbatch", "--parsable", *options, str(EXAMPLES / "torch_training.sh"), job=True))

    def lines(self, job: int) -> list[str]:
        path = self.folder / f"training-{job}.out"
        return path.read_text().splitlines() if path.exists() else []

    def steps(self, job: int) -> list[int]:
        return [int(line.split()[1]) for line in self.lines(job) if re.fullmatch(r"step \d+", line)]

    def field(self, job: int, name: str) -> str:
        found = re.search(rf"\b{name}=(\S+)", self.run("scontrol", "show", "job", str(job)))
        return found[1] if found else ""

    def await_more_steps(self, job: int, count: int) -> None:
        begin = len(self.steps(job))
        self.await_true(lambda: len(self.steps(job)) >= begin + count, f"{count} more steps of job {job}")

    def await_state(self, job: int, state: str) -> None:
        def holds() -> bool:
            now = self.field(job, "JobState")
            if now == "FAILED":
                raise RuntimeError("\n".join(self.lines(job)[-20:]))
            return now == state

        self.await_true(holds, f"job {job} is {state}")

    def await_true(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 120
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"not within 120 s: {what}")
            time.sleep(0.1)

    # What happens to the training

    def preempt(self, job: int) -> None:
        """Its nodes, all there are, are needed for a moment."""
        words = ("-p", "urgent", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 0.2")
        urgent = int(self.run("sbatch", "--parsable", *words))
        self.await_state(urgent, "COMPLETED")
        self.await_state(job, "RUNNING")

    def kill_node(self, job: int) -> None:
        """The host of rank 2 and 3 dies with everything on it; it comes back when the job is gone from it."""
        nodes = self.run("scontrol", "show", "hostnames", self.field(job, "NodeList")).split()
        name = nodes[-1]
        for pid in _processes_of(name, self._state):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.await_true(lambda: self.field(job, "Restarts") != str(PREEMPTIONS), "the loss is noticed")
        self.run("minislurm", "up", "--state-dir", str(self._state))
        self.await_state(job, "RUNNING")

    def move(self, job: int) -> str:
        """To the other rack: its own is drained."""
        before = self.field(job, "NodeList")
        self.run("scontrol", "update", f"NodeName={before}", "State=DRAIN", "Reason=moved")
        self.run("scontrol", "requeue", str(job))
        self.await_true(lambda: self.field(job, "NodeList") not in ("", "(null)", before), "it has moved")
        self.await_state(job, "RUNNING")
        self.run("scontrol", "update", f"NodeName={before}", "State=RESUME")
        return f"{before} -> {self.field(job, 'NodeList')}"

    def weights(self, job: int) -> str:
        return next((line for line in reversed(self.lines(job)) if line.startswith("weights")), "none")


def _processes_of(node: str, state: Path) -> list[int]:
    """The node daemon, what it started, and every process of its jobs."""
    mark, found = f"SLURMD_NODENAME={node}".encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        here = any(str(state).encode() in word for word in (*words, *environment))
        if here and (mark in environment or any(re.search(rb"\b%b\b" % node.encode(), w) for w in words)):
            found.append(int(entry.name))
    return found


def measure(trial: Trial, steps: int) -> dict[str, object]:
    alone = trial.train("-N2")
    trial.await_state(alone, "COMPLETED")
    disturbed = trial.train("-N2")
    twice: dict[str, int] = {}

    def count(what: str, disturb: Callable[[], object]) -> object:
        trial.await_more_steps(disturbed, INTERVAL + 5)
        before = _repeated(trial.steps(disturbed))
        result = disturb()
        trial.await_more_steps(disturbed, 3)
        twice[what] = twice.get(what, 0) + _repeated(trial.steps(disturbed)) - before
        return result

    for _ in range(PREEMPTIONS):
        count("preemption", lambda: trial.preempt(disturbed))
    count("node killed", lambda: trial.kill_node(disturbed))
    moved = count("moved to another rack", lambda: trial.move(disturbed))
    trial.await_state(disturbed, "COMPLETED")
    return {
        "steps": steps,
        "restarts": int(trial.field(disturbed, "Restarts")),
        "moved": moved,
        "weights alone": trial.weights(alone),
        "weights disturbed": trial.weights(disturbed),
        "bit for bit the same": trial.weights(alone) == trial.weights(disturbed) != "none",
        "every step computed": set(trial.steps(disturbed)) == set(range(1, steps + 1)),
        "steps computed twice": twice,
        "checkpoint interval (steps)": INTERVAL,
    }


def _repeated(steps: list[int]) -> int:
    return sum(times - 1 for times in Counter(steps).values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench/run training", description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=600, help="of the training (600)")
    parser.add_argument("--keep", action="store_true", help="leave the folder, and say where it is")
    arguments = parser.parse_args()
    python = os.environ.get("MINISLURM_TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        print(f"{python} has no PyTorch; MINISLURM_TORCH_PYTHON can name another one", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="minislurm-training-"))
    trial = Trial(folder, python, arguments.steps)
    try:
        trial.up()
        try:
            print(json.dumps(measure(trial, arguments.steps), indent=2))
        finally:
            trial.down()
    finally:
        if arguments.keep:
            print(folder, file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
