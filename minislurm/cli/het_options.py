"""The options of heterogeneous jobs: one set for each component, set apart by ``:`` on the command line and
by ``#SBATCH hetjob`` in the script.

As in Slurm an option that is given once holds for the components after it too, but for what a component asks
of nodes, which each says for itself. What concerns the job as a whole is given with the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from minislurm.cli.argv import CommandLine, Occurrence
from minislurm.cli.job_options import JobOptions
from minislurm.domain.errors import UsageError

SEPARATORS = frozenset({"hetjob", "packjob"})

#: Attributes of options that each component has for itself.
_OWN = frozenset(
    {
        "nodes", "ntasks", "ntasks_per_node", "cpus_per_task", "mincpus", "mem", "mem_per_cpu", "mem_per_gpu",
        "gres", "gpus", "gpus_per_node", "gpus_per_task", "cpus_per_gpu", "gpu_memory_min",
        "gpu_capability_min", "exclusive", "nodelist", "exclude", "constraint", "licenses", "topology",
        "switches", "segment", "spread_job", "partition",
    }
)  # fmt: skip
#: Of the job as a whole: a later component that says otherwise would be ignored.
_OF_ALL = frozenset(
    {
        "begin", "deadline", "max_wait", "dependency", "kill_on_invalid_dep", "array", "hold", "nice",
        "priority", "requeue", "output", "error", "input", "open_mode", "output_mode", "chdir", "export",
    }
)  # fmt: skip
#: Of the command: they may stand with any component.
_OF_COMMAND = ("test_only", "wait", "parsable", "quiet", "verbose", "clusters", "wrap")


class Layers(Struct, frozen=True):
    """What the script and the command line say."""

    written: Sequence[Occurrence]
    typed: Sequence[Occurrence]


def split_components(
    line: CommandLine, parse: Callable[[Sequence[str]], CommandLine]
) -> tuple[list[Sequence[Occurrence]], tuple[str, ...]]:
    """The options of each component on the command line, and what stands behind the last of them."""
    typed: list[Sequence[Occurrence]] = [line.occurrences]
    while line.positionals[:1] == (":",):
        line = parse(line.positionals[1:])
        typed.append(line.occurrences)
    return typed, line.positionals


def layers_of(
    written: Sequence[Sequence[Occurrence]], typed: Sequence[Sequence[Occurrence]], number: int
) -> Iterator[Layers]:
    """What holds for a component: what those before it hand down, then its own. Raises UsageError."""
    for before in range(number):
        yield Layers(_handed_down(_of(written, before)), _handed_down(_of(typed, before)))
    own = Layers(_of(written, number), _of(typed, number))
    for occurrence in (*own.written, *own.typed) if number else ():
        if occurrence.option.attribute in _OF_ALL:
            name = occurrence.option.name
            raise UsageError(f"--{name} is for the whole heterogeneous job: give it with the first component")
    yield own


def take_over(first: JobOptions, last: JobOptions) -> None:
    """Options of the command, from wherever they stood: the last component has been handed all of them."""
    for attribute in _OF_COMMAND:
        setattr(first, attribute, getattr(last, attribute))


def _of(components: Sequence[Sequence[Occurrence]], number: int) -> Sequence[Occurrence]:
    return components[number] if number < len(components) else ()


def _handed_down(occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    return [item for item in occurrences if item.option.attribute not in _OWN]
