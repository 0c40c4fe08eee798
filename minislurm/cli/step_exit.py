"""How the tasks of a step ended: srun's messages about them and its exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

#: Deaths after which Slurm says that the step was ended by force.
_FORCED = (int(signal.SIGKILL), int(signal.SIGTERM))


class Ending(Struct, frozen=True):
    """How one task ended."""

    exit_code: int = 0
    exit_signal: int = 0
    core_dumped: bool = False

    @property
    def is_normal(self) -> bool:
        return not self.exit_code and not self.exit_signal

    @property
    def text(self) -> str:
        """ "Exited with exit code 3", "Killed", "Segmentation fault (core dumped)"."""
        if not self.exit_signal:
            return f"Exited with exit code {self.exit_code}" if self.exit_code else "Completed"
        name = signal.strsignal(self.exit_signal) if self.exit_signal in _KNOWN_SIGNALS else None
        return (name or f"Unknown signal {self.exit_signal}") + (" (core dumped)" if self.core_dumped else "")


_KNOWN_SIGNALS = frozenset(range(1, signal.NSIG))


class StepExit(Struct):
    """Collects the tasks' ends, node by node."""

    #: Global ranks of all tasks.
    tasks: tuple[int, ...]
    endings: dict[int, Ending] = field(default_factory=dict)
    #: Ends not yet printed: (node, how) -> tasks.
    _unsaid: dict[tuple[str, Ending], list[int]] = field(default_factory=dict)
    _lost: set[int] = field(default_factory=set)

    def note(self, node: str, task: int, ending: Ending) -> None:
        if task in self.endings:
            return
        self.endings[task] = ending
        self._unsaid.setdefault((node, ending), []).append(task)

    def lose(self, tasks: Iterable[int]) -> None:
        """Nobody will say how these ended."""
        self._lost.update(task for task in tasks if task not in self.endings)

    def messages(self, *, verbose: bool = False) -> list[str]:
        """Lines not returned before, such as "n1: tasks 0-2: Killed". Normal ends only if `verbose`."""
        unsaid, self._unsaid = self._unsaid, {}
        return [
            f"{node}: {name_tasks(tasks)}: {ending.text}"
            for (node, ending), tasks in unsaid.items()
            if verbose or not ending.is_normal
        ]

    @property
    def running(self) -> list[int]:
        return [task for task in self.tasks if task not in self.endings and task not in self._lost]

    @property
    def was_forced(self) -> bool:
        return any(ending.exit_signal in _FORCED for ending in self.endings.values())

    @property
    def ending(self) -> Ending:
        """The step's: any death by signal wins, then the highest exit code. A lost task counts as code 1."""
        signals = [ending.exit_signal for ending in self.endings.values()]
        codes = [ending.exit_code for ending in self.endings.values()]
        return Ending(max(*codes, 1 if self._lost else 0, 0), max([*signals, 0]))

    @property
    def exit_code(self) -> int:
        """srun's own: 128 + signal, or the highest exit code."""
        ending = self.ending
        return 128 + ending.exit_signal if ending.exit_signal else ending.exit_code

    def state_lines(self, step: str) -> list[str]:
        """What srun says at the first Ctrl-C: "StepId=20.0 tasks 0-2: running"."""
        groups: list[tuple[str, list[int]]] = [
            ("running", self.running),
            ("exited", [task for task, ending in self.endings.items() if ending.is_normal]),
            ("exited abnormally", [task for task, ending in self.endings.items() if not ending.is_normal]),
            ("unknown", sorted(self._lost)),
        ]
        return [f"StepId={step} {name_tasks(tasks)}: {state}" for state, tasks in groups if tasks]


def name_tasks(tasks: Sequence[int]) -> str:
    """ "task 3", "tasks 0-2,7"."""
    return f"task{'s' if len(tasks) > 1 else ''} {ranges(tasks)}"


def ranges(numbers: Iterable[int]) -> str:
    """ "0-2,7"."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    for i, number in enumerate(ordered):
        if i + 1 < len(ordered) and ordered[i + 1] == number + 1:
            continue
        first = ordered[start]
        parts.append(str(first) if first == number else f"{first}-{number}")
        start = i + 1
    return ",".join(parts)
