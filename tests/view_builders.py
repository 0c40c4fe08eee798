"""The cluster of the recorded Slurm (8 nodes of 16 CPUs and 8 GPUs) as views."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.ids import JobId, NodeName, bitmap_of
from minislurm.domain.job import Dependency, DependencyKind, Job
from minislurm.domain.node import Node
from minislurm.domain.resources import NodeAllocation
from minislurm.domain.states import JobState, NodeState, Reason
from minislurm.domain.views import (
    ConfigurationView,
    ControllerInfo,
    JobChanges,
    JobQuery,
    JobTarget,
    JobView,
    NodeView,
    Outcome,
    PartitionView,
)
from tests.builders import a_node, a_request, a_spec, facts


def at(clock: str) -> float:
    """Seconds since the epoch of that time of day on the recorded day, in local time."""
    return datetime.fromisoformat(f"2026-11-21T{clock}").timestamp()


SUBMITTED = at("08:39:04")
NOW = at("08:39:08")


def part(node: str, cpus: range = range(1), gpus: range = range(0), memory_mib: int = 0) -> NodeAllocation:
    return NodeAllocation(NodeName(node), bitmap_of(cpus), memory_mib, bitmap_of(gpus))


def a_job_view(
    job_id: int,
    name: str = "wrap",
    *,
    state: JobState = JobState.PENDING,
    reason: str = "None",
    priority: int = 1,
    request: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    view: dict[str, Any] | None = None,
    **job: Any,
) -> JobView:
    """A job of root's in partition batch; `request`, `spec`, `view` and the rest change what differs."""
    wanted = a_request(**{"memory_per_node_mib": 64_000, **(request or {})})
    given = a_spec(
        name,
        request=wanted,
        **{
            "user_id": 0,
            "user_name": "root",
            "group_name": "root",
            "account": "root",
            "qos": "normal",
            "work_dir": "/home/alice/run",
            "submit_host": "localhost",
            "submit_pid": 1955,
            **(spec or {}),
        },
    )
    record = Job(
        **{
            "id": JobId(job_id),
            "spec": given,
            "submit_time": SUBMITTED,
            "eligible_time": SUBMITTED,
            "state": state,
            "name": name,
            "partition": "batch",
            "time_limit_s": 1800.0,
            **job,
        }
    )
    streams = {"std_in": "/dev/null", "std_out": "/dev/null", "std_err": "/dev/null"}
    return JobView(record, reason, priority, **{"last_considered": at("08:39:05"), **streams, **(view or {})})


def running_view(**changes: Any) -> JobView:
    """Job 1 of the recording: two nodes, four GPUs."""
    output = "/home/alice/run/env_batch_stdout.txt"
    return a_job_view(
        1,
        "envjob",
        **{
            "state": JobState.RUNNING,
            "start_time": at("08:39:05"),
            "time_limit_s": 600.0,
            "comment": "hello",
            "allocation": (part("n1", range(6), range(2)), part("n2", range(2), range(2))),
            "request": {
                "nodes_min": 2, "nodes_max": 2, "tasks": 4, "cpus_per_task": 2, "gpus_per_node": 2,
                "memory_per_node_mib": 0,
            },
            "spec": {"command": "/home/alice/run/envjob.sh", "gres": "gpu:2"},
            "view": {"std_out": output, "std_err": output},
            **changes,
        },
    )  # fmt: skip


def array_rest_view(**changes: Any) -> JobView:
    """Job 2 of the recording: tasks 2 to 19 wait, two at a time."""
    return a_job_view(
        2,
        "arr",
        **{
            "reason": "JobArrayTaskLimit",
            "priority": 50,
            "pending_tasks": list(range(2, 20)),
            "array_job_id": JobId(2),
            "array_limit": 2,
            "time_limit_s": 300.0,
            **changes,
        },
    )


def recorded_jobs() -> list[JobView]:
    """The seven jobs of the recording. Their priorities give the recorded order, which was chance."""
    return [
        running_view(),
        array_rest_view(),
        a_job_view(
            3, "big", reason="Resources", priority=20, time_limit_s=7200.0,
            request={"nodes_min": 8, "nodes_max": 8, "tasks": 8, "exclusive": True},
        ),
        a_job_view(
            4, "dep", reason="Dependency", priority=30, eligible_time=0.0,
            dependencies=(Dependency(DependencyKind.AFTER_OK, JobId(3)),),
            view={"dependency_states": ("unfulfilled",), "last_considered": SUBMITTED},
        ),
        a_job_view(5, "held", reason="JobHeldUser", held="user"),
        a_job_view(6, "later", reason="BeginTime", priority=60, eligible_time=0.0, begin_time=at("09:39:04")),
        a_job_view(7, "crash", reason="Priority", priority=40),
    ]  # fmt: skip


def ended_view(job_id: int, state: JobState, reason: Reason = Reason.NONE, **changes: Any) -> JobView:
    return a_job_view(
        job_id,
        **{
            "state": state,
            "reason": reason.value,
            "start_time": at("08:39:05"),
            "end_time": at("08:39:05"),
            "allocation": (part("n1"),),
            **changes,
        },
    )


def a_node_view(name: str = "n1", *, state: str = "IDLE", gpus: int = 8, **changes: Any) -> NodeView:
    """A node of the recording. `partitions` and whatever a `Node` has may be given."""
    partitions = changes.pop("partitions", ("batch", "urgent"))
    spec = a_node(name, cpus=16, memory_mib=64_000, gpus=gpus)
    found = facts(
        cpus=16, memory_mib=64_000, host_name="login1", step_port=17000 + int(name.strip("n") or 0),
        architecture="x86_64", operating_system="Linux 6.18.44-fc-v445 #1 SMP PREEMPT_DYNAMIC @0",
        version="22.05.8", boot_time=at("08:02:42"), daemon_start_time=at("08:38:27"), cores_per_socket=16,
    )  # fmt: skip
    node = replace(
        Node(spec, found, NodeState.UP, responding=True, last_busy_time=at("08:38:27"), cpu_load=3.35,
             free_memory_mib=22264),
        **changes,
    )  # fmt: skip
    return NodeView(node, partitions, state)


def recorded_nodes() -> list[NodeView]:
    """n1 and n2 run job 1, the others are idle."""
    busy = ("batch", "urgent", "small")
    gpus = bitmap_of(range(2))
    return [
        a_node_view("n1", state="MIXED", partitions=busy, cpus_used=bitmap_of(range(6)), gpus_used=gpus),
        a_node_view("n2", state="MIXED", partitions=busy, cpus_used=bitmap_of(range(2)), gpus_used=gpus),
        *(a_node_view(f"n{i}") for i in range(3, 9)),
    ]


def recorded_partitions() -> list[PartitionView]:
    names = tuple(NodeName(f"n{i}") for i in range(1, 9))
    whole = PartitionView(
        "batch", names, default=True, max_time_s=86400.0, default_time_s=1800.0, min_nodes=0,
        total_cpus=128, total_memory_mib=512_000, total_gpus=64,
    )  # fmt: skip
    return [
        whole,
        replace(whole, name="urgent", default=False, priority_tier=10),
        replace(
            whole, name="small", nodes=names[:2], default=False, max_time_s=3600.0, default_time_s=600.0,
            max_nodes=2, total_cpus=32, total_memory_mib=128_000, total_gpus=16,
        ),
    ]  # fmt: skip


def het_views() -> list[JobView]:
    """Two components of a heterogeneous job that runs: 20+0 on n1, 20+1 on n[2-3]."""
    views = []
    for offset, nodes in enumerate((("n1",), ("n2", "n3"))):
        views.append(
            a_job_view(
                20 + offset,
                "pair",
                state=JobState.RUNNING,
                request={"nodes_min": len(nodes), "nodes_max": len(nodes), "tasks": len(nodes)},
                spec={"is_batch": not offset},
                view={"het_job_ids": (JobId(20), JobId(21))},
                allocation=tuple(part(node) for node in nodes),
                start_time=SUBMITTED,
                het_job_id=JobId(20),
                het_job_offset=offset,
                time_limit_s=600.0 * (offset + 1),
            )
        )
    return views


class RecordedController:
    """Answers as a controller with these records would, and keeps what was asked of it."""

    def __init__(self, jobs: list[JobView] | None = None) -> None:
        self.jobs = recorded_jobs() if jobs is None else jobs
        self.nodes = recorded_nodes()
        self.requests: list[tuple[Any, ...]] = []

    def __enter__(self) -> RecordedController:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def ping(self) -> ControllerInfo:
        return ControllerInfo("login1", "baseline", NOW, SUBMITTED, "23.02.7", 0, 1)

    def list_jobs(self, query: JobQuery) -> list[JobView]:
        return [
            view
            for view in self.jobs
            if (query.include_ended or not view.job.state.is_final)
            and (
                not query.job_ids
                or {view.job.id, view.job.array_job_id, *view.het_job_ids} & set(query.job_ids)
            )
        ]

    def list_nodes(self) -> list[NodeView]:
        return self.nodes

    def list_partitions(self) -> list[PartitionView]:
        return recorded_partitions()

    def show_configuration(self) -> ConfigurationView:
        values = {"MinJobAge": "300 sec", "ClusterName": "baseline", "timers.min_job_age_s": "300.0"}
        return ConfigurationView(values, at("08:38:26"), JobId(10))

    def hold(self, targets: list[JobTarget], *, by_user: bool = False) -> list[Outcome]:
        return self._act(targets, "hold", by_user)

    def release(self, targets: list[JobTarget]) -> list[Outcome]:
        return self._act(targets, "release")

    def requeue(self, targets: list[JobTarget], *, hold: bool = False) -> list[Outcome]:
        return self._act(targets, "requeue", hold)

    def update_job(self, targets: list[JobTarget], changes: JobChanges) -> list[Outcome]:
        return self._act(targets, "update_job", changes)

    def update_node(self, names: list[NodeName], **changes: Any) -> None:
        if unknown := set(names) - {view.node.name for view in self.nodes}:
            raise Refusal(RefusalCode.INVALID_NODE_NAME, details=tuple(sorted(unknown)))
        self.requests.append(("update_node", tuple(names), changes))

    def update_partition(self, name: str, state: str, settings: dict[str, str]) -> None:
        self.requests.append(("update_partition", name, state, settings))

    def _act(self, targets: list[JobTarget], *request: Any) -> list[Outcome]:
        self.requests.append((*request, tuple(targets)))
        known = {view.job.id for view in self.jobs}
        return [
            Outcome(target, None if target.job_id in known else Refusal(RefusalCode.INVALID_JOB_ID))
            for target in targets
        ]
