"""What `scontrol update` makes of its words."""

from __future__ import annotations

from typing import Any

import pytest

from minislurm.cli.update import JobUpdate, NodeUpdate, PartitionUpdate, UpdateError, parse_update
from minislurm.domain.errors import UsageError
from minislurm.domain.ids import JobId
from minislurm.domain.job import Dependency, DependencyKind
from minislurm.domain.resources import GpuGroup
from minislurm.domain.views import JobChanges
from tests.view_builders import NOW, at


def _changes(*words: str) -> JobChanges:
    update = parse_update(["JobId=4", *words], NOW)
    assert isinstance(update, JobUpdate)
    assert update.job_ids == "4"
    return update.changes


@pytest.mark.parametrize(
    ("word", "changes"),
    [
        ("TimeLimit=1:00:00", {"time_limit_s": 3600.0}),
        ("timelimit=UNLIMITED", {"time_limit_s": 0.0}),
        ("TimeLimit=-1", {"time_limit_s": 0.0}),
        ("Nice=5", {"nice": 5}),
        ("nice=-5", {"nice": -5}),
        ("nice", {"nice": 100}),
        ("Priority=7", {"priority": 7}),
        ("Comment=a b=c", {"comment": "a b=c"}),
        ("JobName=x", {"name": "x"}),
        ("Name=x", {"name": "x"}),
        ("Part=small", {"partition": "small"}),
        ("ArrayTaskThrottle=3", {"array_limit": 3}),
        ("StartTime=09:00:00", {"begin_time": at("09:00:00")}),
        ("StartTime=now", {"begin_time": NOW}),
        ("Requeue=0", {"requeue": False}),
        ("NumNodes=2-4", {"nodes_min": 2, "nodes_max": 4}),
        ("NumNodes=2", {"nodes_min": 2, "nodes_max": 2}),
        ("Features=a&b", {"features": "a&b"}),
        ("ReqNodeList=n[1-2]", {"required_nodes": "n[1-2]"}),
        ("ExcNodeList=", {"excluded_nodes": ""}),
        ("NumTasks=8", {"tasks": 8}),
        ("CPUsPerTask=2", {"cpus_per_task": 2}),
        ("MinMemoryNode=4G", {"memory_per_node_mib": 4096}),
        ("MinMemoryCPU=100", {"memory_per_cpu_mib": 100}),
        ("Account=lab", {"account": "lab"}),
        ("QOS=high", {"qos": "high"}),
        ("Gres=gpu:2", {"gpus_per_node": GpuGroup(2)}),
        ("gres=gpu:a100:4", {"gpus_per_node": GpuGroup(4, "a100")}),
        ("Gres=", {"gpus_per_node": GpuGroup(0)}),
        ("TresPerNode=gres/gpu:2", {"gpus_per_node": GpuGroup(2)}),
        ("TresPerTask=gres:gpu:1", {"gpus_per_task": GpuGroup(1)}),
        ("TresPerJob=gpu:a100|h100:8", {"gpus_total": GpuGroup(8, "a100|h100")}),
        ("Switches=2@10", {"switches": 2, "switches_wait_s": 600.0}),
        ("Switches=2", {"switches": 2, "switches_wait_s": 0.0}),
        ("Switches=2@0", {"switches": 0}),
        ("Topology=rack:required", {"topology_level": "rack", "topology_required": True}),
        ("Topology=none", {"topology_level": ""}),
        ("Segment=4", {"segment": 4}),
        ("MinCPUsNode=8", {"cpus_per_node_min": 8}),
        ("Dependency=", {"clear_dependencies": True}),
        (
            "Dependency=afterok:3",
            {
                "dependencies": (Dependency(DependencyKind.AFTER_OK, JobId(3)),),
                "dependency_any": False,
            },
        ),
    ],
)
def test_job_keys(word: str, changes: dict[str, Any]) -> None:
    assert _changes(word) == JobChanges(**changes)


def test_several_at_once_in_any_order() -> None:
    update = parse_update(["nice=1", "job=4,5_[1-2]", "comment=x"], NOW)
    assert update == JobUpdate(job_ids="4,5_[1-2]", changes=JobChanges(nice=1, comment="x"))


@pytest.mark.parametrize(
    ("word", "shift"), [("TimeLimit=+10", 600.0), ("TimeLimit+=10", 600.0), ("TimeLimit-=1:00", -60.0)]
)
def test_relative_time_limit(word: str, shift: float) -> None:
    update = parse_update(["job=4", word], NOW)
    assert update == JobUpdate(job_ids="4", time_limit_change_s=shift)


def test_jobs_by_name() -> None:
    expected = JobUpdate(names=("big",), changes=JobChanges(nice=3))
    assert parse_update(["jobname=big", "nice=3"], NOW) == expected
    # Beside an id it is the new name.
    assert _changes("jobname=big") == JobChanges(name="big")


def test_nodes_and_partitions() -> None:
    drain = parse_update(["NodeName=n[1-2]", "State=drain", "Reason=bad disk"], NOW)
    assert drain == NodeUpdate("n[1-2]", "DRAIN", "bad disk")
    assert parse_update(["node=n1", "state=RESUME"], NOW) == NodeUpdate("n1", "RESUME")
    assert parse_update(["node=n1", "weight=3"], NOW) == NodeUpdate("n1", weight=3)
    assert parse_update(["Partition=batch", "State=down"], NOW) == PartitionUpdate("batch", "DOWN")


@pytest.mark.parametrize(
    ("word", "settings"),
    [
        ("MaxTime=1-00:00:00", {"max_time_s": "86400"}),
        ("maxtime=UNLIMITED", {"max_time_s": ""}),
        ("DefaultTime=30", {"default_time_s": "1800"}),
        ("DefaultTime=NONE", {"default_time_s": ""}),
        ("MaxNodes=4", {"max_nodes": "4"}),
        ("MaxNodes=UNLIMITED", {"max_nodes": ""}),
        ("PriorityTier=7", {"priority_tier": "7"}),
        ("PriorityJob=2", {"priority_job_factor": "2"}),
        ("PreemptMode=REQUEUE", {"preempt_mode": "requeue"}),
        ("GraceTime=90", {"preempt_grace_s": "90"}),
        ("AllowAccounts=a,b", {"allow_accounts": "a,b"}),
        ("AllowQos=ALL", {"allow_qos": ""}),
        ("DenyQos=low", {"deny_qos": "low"}),
        ("AllowGroups=staff", {"allow_groups": "staff"}),
        ("QoS=limits", {"qos": "limits"}),
        ("DefMemPerCPU=2000", {"default_memory_per_cpu_mib": "2000"}),
        ("MaxPriority=NONE", {"max_priority": ""}),
    ],
)
def test_settings_of_a_partition(word: str, settings: dict[str, str]) -> None:
    assert parse_update(["PartitionName=batch", word], NOW) == PartitionUpdate("batch", "", settings)
    both = parse_update(["PartitionName=batch", word, "State=UP"], NOW)
    assert both == PartitionUpdate("batch", "UP", settings)


@pytest.mark.parametrize(
    ("words", "message", "prefix"),
    [
        ([], "too few arguments for update keyword", False),
        (["job=4"], "No changes specified", False),
        (["node=n1"], "No changes specified", False),
        (["partition=small"], "No changes specified", True),
        (["job=4", "foo=1"], "Update of this parameter is not supported: foo=1\nRequest aborted", False),
        (["job=4", "nice+=1"], "Update of this parameter is not supported: nice+=1\nRequest aborted", False),
        (["job=4", "comment"], "Update of this parameter is not supported: comment\nRequest aborted", False),
        (["job=4", "timelimit=abc"], "Invalid TimeLimit value", True),
        (["job=4", "priority=x"], "Invalid Priority value: x", True),
        (["job=4", "requeue=x"], "Invalid Requeue value: x", True),
        (["job=4", "numnodes=x"], 'Invalid numeric value "x" for requested node count.', True),
        (["job=4", "numnodes=3-2"], 'Invalid numeric value "3-2" for requested node count.', True),
        (["job=4", "gres=shard:2"], "Invalid Gres value: shard:2 (GPUs of one type: gpu:[TYPE:]N)", True),
        (
            ["job=4", "tresperjob=gpu:a100:1,gpu:h100:1"],
            "Invalid TresPerJob value: gpu:a100:1,gpu:h100:1 (GPUs of one type: gpu:[TYPE:]N)",
            True,
        ),
        (["job=4", "switches=x"], "Invalid Switches value: x", True),
        (["job=4", "topology=rack:soft"], "Invalid Topology value: rack:soft", True),
        (
            ["job=4", "workdir=/"],
            "Update of this parameter is not supported: workdir=/\nRequest aborted",
            False,
        ),
        (["job=4", "numnodes=0"], 'Invalid numeric value "0" for requested node count.', True),
        (
            ["job=4", "starttime=never"],
            "Invalid time specification (pos=0): never\nNo changes specified",
            False,
        ),
        (["job=4", "dependency=foo"], "Job dependency problem", False),
        (
            ["node=n1", "state=bogus"],
            "Invalid input: state=bogus\nRequest aborted\n"
            "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN\n"
            "Not all states are valid given a node's prior state",
            False,
        ),
        (
            ["node=n1", "state=power_down"],
            "Update of this parameter is not supported: state=power_down\nRequest aborted",
            False,
        ),
        (
            ["node=n1", "state=drain"],
            "You must specify a reason when DOWNING or DRAINING a node. Request denied",
            False,
        ),
        (
            ["partition=small", "state=foo"],
            "Invalid input: state=foo\nAcceptable State values are UP, DOWN, DRAIN and INACTIVE",
            True,
        ),
        (
            ["partition=small", "nodes=n1"],
            "Update of this parameter is not supported: nodes=n1\nRequest aborted",
            False,
        ),
        (["partition=small", "maxtime=x"], "Invalid MaxTime value: x", True),
        (["partition=small", "maxnodes=x"], 'Invalid numeric value "x" for MaxNodes.', True),
        (
            ["foo=1"],
            "No valid entity in update command\n"
            'Input line must include "NodeName", "PartitionName", or "JobId"',
            False,
        ),
        (
            ["StepId=1.0", "TimeLimit=1"],
            "Update of this parameter is not supported: StepId=1.0\nRequest aborted",
            False,
        ),
    ],
)
def test_what_cannot_be_done(words: list[str], message: str, prefix: bool) -> None:
    with pytest.raises(UsageError) as caught:
        parse_update(words, NOW)
    assert (str(caught.value), caught.value.prefix) == (message, prefix)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UpdateError, match="Invalid input"):
        parse_update(["JobId=1", "Comment=caf\udce9"], 0.0)


def test_site_factor_and_bid() -> None:
    assert parse_update(["JobId=4", "SiteFactor=-20"], NOW).changes.site_factor == -20
    assert parse_update(["JobId=4", "Bid=2.5"], NOW).changes.bid == 2.5
    for words in ("SiteFactor=x", "Bid=-1", "Bid=1.0000001"):
        with pytest.raises(UsageError, match="Invalid"):
            parse_update(["JobId=4", words], NOW)
