"""A node daemon as the controller sees it: what it does with a command, and what it reports."""

from __future__ import annotations

from msgspec import Struct, field

from minislurm.cluster.effects import (
    AskCheckpoint,
    DeleteCheckpoint,
    EndRun,
    ForgetRun,
    NodeCommand,
    PrepareRun,
    SignalRun,
    StartRun,
    TellNodes,
)
from minislurm.cluster.messages import NodeReport, RunReport
from minislurm.domain.exhaustive import assert_never
from minislurm.domain.ids import JobId, NodeName, RunNumber

#: One attempt of a job.
RunKey = tuple[JobId, RunNumber]


class VirtualNode(Struct):
    """Commands may come twice; each does its work once. Nothing here takes time: the cluster that owns the
    node says when an answer arrives and how long a script runs."""

    name: NodeName
    alive: bool = True
    #: Answers PREPARE. A node that does not is silent, though its stream stands.
    answers: bool = True
    runs: dict[RunKey, RunReport] = field(default_factory=dict)
    #: Signals that jobs were sent here, oldest first.
    signals: list[tuple[RunKey, int]] = field(default_factory=list)
    #: Runs whose nodes were said to be others, oldest first.
    told: list[RunKey] = field(default_factory=list)
    #: What was wanted of jobs' checkpoints here, oldest first.
    checkpoint_commands: list[AskCheckpoint | DeleteCheckpoint] = field(default_factory=list)

    def obey(self, command: NodeCommand) -> tuple[RunReport | None, RunKey | None]:
        """What it reports at once, and the run that it starts."""
        key = (command.job_id, command.run)
        match command:
            case PrepareRun():
                return self._prepare(key, command.start)
            case StartRun():
                held = self.runs.get(key)
                return None, key if held is not None and held.phase == "PREPARED" else None
            case EndRun():
                clean = RunReport(*key, "CLEAN")
                if key in self.runs:
                    self.runs[key] = clean
                return clean, None
            case ForgetRun():
                self.runs.pop(key, None)
            case TellNodes():
                self.told.append(key)
            case SignalRun():
                self.signals.append((key, command.signal))
            case AskCheckpoint() | DeleteCheckpoint():
                self.checkpoint_commands.append(command)
            case _:
                assert_never(command)
        return None, None

    def _prepare(self, key: RunKey, start: bool) -> tuple[RunReport | None, RunKey | None]:
        if not self.answers or key in self.runs:
            return None, None
        self.runs[key] = RunReport(*key, "PREPARED")
        return (None, key) if start else (self.runs[key], None)

    def start(self, key: RunKey, now: float) -> RunReport:
        """The script of this run begins here."""
        self.runs[key] = RunReport(*key, "RUNNING", start_time=now)
        return self.runs[key]

    def exit(self, key: RunKey, now: float, exit_code: int, *, alone: bool) -> NodeReport | None:
        """The script is over; None: it is not running here any more. `alone`: no other node has a part of
        the run, so with the script's end nothing is left of it."""
        run = self.runs.get(key)
        if not self.alive or run is None or run.phase != "RUNNING":
            return None
        phase = "CLEAN" if alone else "EXITED"
        self.runs[key] = RunReport(*key, phase, exit_code, start_time=run.start_time, end_time=now)
        return NodeReport(self.name, RunReport(*key, "EXITED", exit_code, end_time=now), clean=alone)
