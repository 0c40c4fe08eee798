"""Stories in text (scenarios/*.txt): what is done to a simulated cluster, and below it what came of it.

Lines with `>` are commands; what follows is the output. With REWRITE_SCENARIOS=1 in the environment it is
written anew: read the difference before it is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from minislurm.cluster.core import Transaction
from minislurm.cluster.events import (
    Event,
    NodeChanged,
    PendingEnded,
    RunEnded,
    RunEnding,
    RunPlaced,
    RunStarted,
)
from minislurm.cluster.messages import CancelJob, Message, ReleaseJob, RequeueJob, UpdateJob, UpdateNode
from minislurm.domain import hostlist
from minislurm.domain.arrays import format_tasks, parse_array
from minislurm.domain.configuration import Partition
from minislurm.domain.dependencies import parse_dependencies
from minislurm.domain.errors import Refusal
from minislurm.domain.ids import JobId, NodeName
from minislurm.domain.job import Job
from minislurm.domain.job_targets import parse_target
from minislurm.domain.views import JobChanges
from tests.builders import a_configuration, a_request, a_spec
from tests.sim.cluster import OPERATOR, SimCluster

FOLDER = Path(__file__).parent / "scenarios"
START = 1_000_000.0


class LoggedCluster(SimCluster):
    """Notes what happens to runs and nodes, with the virtual time."""

    def __init__(self, **arguments: object) -> None:
        self.lines: list[str] = []
        super().__init__(**arguments)  # type: ignore[arg-type]
        self.lines.clear()

    def tell(self, message: Message) -> Transaction:
        transaction = super().tell(message)
        for event in transaction.events:
            said = self._said(event)
            if said:
                self.lines.append(f"{self.now - START:8.2f}  {said}")
        return transaction

    def name_of(self, job_id: int) -> str:
        job = self.job(job_id)
        if job.array_task_id is not None:
            return f"{job.array_job_id}_{job.array_task_id}"
        if job.is_component:
            return f"{job.het_job_id}+{job.het_job_offset}"
        if job.is_array_rest:
            return f"{job.id}_[{format_tasks(job.pending_tasks, job.array_limit)}]"
        return str(job.id)

    def _said(self, event: Event) -> str:
        match event:
            case RunPlaced():
                nodes = hostlist.compress(part.node for part in event.allocation)
                return f"job {self.name_of(event.job_id)} run {event.run}: CONFIGURING on {nodes}"
            case RunStarted():
                return f"job {self.name_of(event.job_id)} run {event.run}: RUNNING"
            case RunEnding():
                return f"job {self.name_of(event.job_id)} run {event.run}: ending ({event.cause.value})"
            case RunEnded() | PendingEnded():
                job = self.job(event.job_id)
                code = f" exit {job.exit_code}" if job.exit_code else ""
                return f"job {self.name_of(event.job_id)}: {job.state.value}{code}"
            case NodeChanged():
                flags = " drained" * event.drained + " silent" * (not event.responding)
                flags += " given up" * event.given_up
                reason = f" ({event.reason})" if event.reason else ""
                return f"node {event.node}: {event.state.value}{flags}{reason}"
        return ""


class Story:
    """Carries out commands; each gives its output."""

    def __init__(self) -> None:
        self.cluster = LoggedCluster()
        self.seconds: dict[str, float] = {}

    def do(self, line: str) -> list[str]:
        word, *arguments = line.split()
        options = dict(a.split("=", 1) for a in arguments if "=" in a)
        plain = [a for a in arguments if "=" not in a]
        command: Callable[..., list[str] | None] = getattr(self, f"do_{word.replace('-', '_')}")
        output = command(*plain, **options) or []
        happened, self.cluster.lines = self.cluster.lines, []
        return [*output, *happened]

    def do_cluster(self, **options: str) -> None:
        """nodes= cpus= gpus= racks= large=N (a second partition over the first N nodes) TIMER="""
        sizes = {name: int(options.pop(name, default)) for name, default in _SIZES.items()}
        large = sizes.pop("large")
        configuration = a_configuration(**sizes)
        if large:
            names = tuple(spec.name for spec in configuration.nodes[:large])
            partitions = (*configuration.partitions, Partition("large", nodes=names))
            configuration = replace(configuration, partitions=partitions)
        timers = replace(configuration.timers, **{name: float(value) for name, value in options.items()})
        self.cluster = LoggedCluster(
            configuration=replace(configuration, timers=timers),
            duration_of=lambda job: self.seconds.get(job.name, 10.0),
        )

    def do_submit(self, name: str, **options: str) -> list[str]:
        """NAME nodes= tasks= cpus= gpus= limit= seconds= exit= array= after= user=, requeue=no"""
        self.seconds[name] = float(options.pop("seconds", 10))
        exit_code = int(options.pop("exit", 0))
        array = parse_array(options.pop("array")) if "array" in options else None
        after, any_one = parse_dependencies(options.pop("after")) if "after" in options else ((), False)
        limit = options.pop("limit", None)
        nodes = int(options.pop("nodes", 1))
        request = a_request(
            nodes,
            tasks=int(options.pop("tasks", nodes)),
            cpus_per_task=int(options.pop("cpus", 1)),
            gpus_per_node=int(options.pop("gpus", 0)),
        )
        requeue = options.pop("requeue", "yes") == "yes"
        spec = a_spec(
            name,
            request=request,
            time_limit_s=None if limit is None else float(limit),
            array_tasks=array.tasks if array else (),
            array_limit=array.limit if array else 0,
            dependencies=after,
            dependency_any=any_one,
            requeue=requeue,
        )
        assert not options, f"unknown: {options}"
        try:
            job_id = self.cluster.submit(spec)
        except Refusal as refusal:
            return [f"error: {refusal}", *refusal.details]
        self.cluster.exit_codes[job_id] = exit_code
        accepted = f"submitted {self.cluster.name_of(job_id)}"
        self.cluster.run()
        return [accepted]

    def do_submit_het(self, name: str, *components: str, **options: str) -> list[str]:
        """NAME NODESxCPUS NODESxCPUS …, seconds= limit="""
        self.seconds[name] = float(options.pop("seconds", 10))
        limit = float(options.pop("limit", 60))
        assert not options, f"unknown: {options}"
        specs = []
        for text in components:
            nodes, cpus = map(int, text.split("x"))
            specs.append(a_spec(name, request=a_request(nodes, cpus_per_task=cpus), time_limit_s=limit))
        try:
            job_id = self.cluster.submit_components(*specs)
        except Refusal as refusal:
            return [f"error: {refusal}", *refusal.details]
        self.cluster.run()
        return [f"submitted {job_id}"]

    def do_wait(self, seconds: str) -> None:
        self.cluster.run(float(seconds))

    def do_squeue(self) -> list[str]:
        return [self._row(job) for job in self.cluster.state.jobs.values() if not job.state.is_final]

    def do_jobs(self) -> list[str]:
        return [self._row(job) for job in self.cluster.state.jobs.values()]

    def _row(self, job: Job) -> str:
        if job.allocation and not job.state.is_final:
            where = hostlist.compress(part.node for part in job.allocation)
        else:
            where = f"({self.cluster.reason(job.id)})"
        counts = "".join(f" {cause}={n}" for cause, n in sorted(job.requeues.items()))
        return f"{self.cluster.name_of(job.id)} {job.name} {job.state.compact} {where}{counts}"

    def do_sinfo(self) -> list[str]:
        rows = []
        for node in self.cluster.state.nodes.values():
            usable = "usable" if node.is_usable else "not usable"
            rows.append(
                f"{node.name} {node.state.value} {usable} cpus {node.cpus_used.bit_count()}/{node.cpus}"
            )
        return rows

    # Requests, as the operator

    def do_cancel(self, target: str) -> list[str]:
        return self._ask(CancelJob(parse_target(target), OPERATOR))

    def do_release(self, target: str) -> list[str]:
        return self._ask(ReleaseJob(parse_target(target), OPERATOR))

    def do_requeue(self, target: str, hold: str = "no") -> list[str]:
        return self._ask(RequeueJob(parse_target(target), OPERATOR, hold == "yes"))

    def do_limit(self, target: str, tasks: str) -> list[str]:
        return self._ask(UpdateJob(parse_target(target), OPERATOR, JobChanges(array_limit=int(tasks))))

    def do_operate(self, node: str, state: str, reason: str = "") -> list[str]:
        return self._ask(UpdateNode(NodeName(node), OPERATOR, state, reason or None))

    def _ask(self, message: Message) -> list[str]:
        refusal = self.cluster.tell(message).refusal
        self.cluster.run()
        return [f"error: {refusal}"] if refusal is not None else []

    # Faults

    def do_mute(self, node: str) -> None:
        """It stands and is connected, and does not answer PREPARE."""
        self.cluster.nodes[NodeName(node)].answers = False

    def do_unmute(self, node: str) -> None:
        self.cluster.nodes[NodeName(node)].answers = True

    def do_kill_node(self, node: str) -> None:
        self.cluster.kill_node(node)

    def do_cut_off(self, node: str) -> None:
        self.cluster.cut_off(node)

    def do_lose_node(self, node: str) -> None:
        """As when nothing came from it for node_timeout_s."""
        self.cluster.declare_lost(node)
        self.cluster.run()

    def do_register(self, node: str) -> None:
        self.cluster.register(node)
        self.cluster.run()

    def do_kill_controller(self) -> None:
        """After this command is in the journal, before any of its effects; and a new one starts."""
        self.cluster.restart_controller()
        self.cluster.run()

    def do_lose_effects(self) -> None:
        """Whatever follows is journaled, and the controller dies before it acts on it."""
        self.cluster.lose_effects = True

    def do_started(self, job_id: str) -> list[str]:
        """On which nodes the script was ever started, by run."""
        return [
            f"{node.name} run {run}"
            for node in self.cluster.nodes.values()
            for started, run in node.started
            if started == JobId(int(job_id))
        ]


_SIZES = {"nodes": "4", "cpus": "1", "gpus": "0", "racks": "0", "large": "0"}


def played(text: str) -> str:
    """The text with the output of its commands as it is now."""
    story = Story()
    return "\n".join(_lines(story, text)) + "\n"


def _lines(story: Story, text: str) -> Iterator[str]:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(">"):
            yield line
            yield from story.do(line[1:])
        elif line.startswith("#") or (not line and _before_command(lines, number)):
            yield line


def _before_command(lines: list[str], number: int) -> bool:
    return number + 1 < len(lines) and lines[number + 1][:1] in (">", "#", "")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text(encoding="utf-8")
    found = played(expected)
    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(found, encoding="utf-8")
        return
    assert found == expected


def test_there_are_scenarios() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 6
