"""scontrol's records, against the recorded output of a real Slurm."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from minislurm.cli.job_row import job_row
from minislurm.cli.show_config import configuration_text
from minislurm.cli.show_job import job_text
from minislurm.cli.show_node import node_text
from minislurm.cli.show_partition import partition_text
from minislurm.cli.show_step import step_text
from minislurm.cli.step_row import step_rows
from minislurm.domain.ids import BATCH_STEP, JobId, NodeName
from minislurm.domain.job import Step
from minislurm.domain.resources import GpuGroup
from minislurm.domain.states import JobState, Reason
from minislurm.domain.views import ConfigurationView, JobView, PartitionView
from tests.view_builders import (
    NOW,
    a_job_view,
    a_node_view,
    array_rest_view,
    at,
    ended_view,
    part,
    recorded_jobs,
    recorded_nodes,
    recorded_partitions,
    running_view,
)

RUNNING = """\
JobId=1 JobName=envjob
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=1 Nice=0 Account=root QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=00:00:03 TimeLimit=00:10:00 TimeMin=N/A
   SubmitTime=2026-11-21T08:39:04 EligibleTime=2026-11-21T08:39:04
   AccrueTime=2026-11-21T08:39:04
   StartTime=2026-11-21T08:39:05 EndTime=2026-11-21T08:49:05 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-21T08:39:05 Scheduler=Main
   Partition=batch AllocNode:Sid=localhost:1955
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=8 NumTasks=4 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   TRES=cpu=8,node=2,billing=8,gres/gpu=4
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=gpu:4
     Nodes=n1 CPU_IDs=0-5 Mem=0 GRES=gpu:2(IDX:0-1)
     Nodes=n2 CPU_IDs=0-1 Mem=0 GRES=gpu:2(IDX:0-1)
   MinCPUsNode=2 MinMemoryNode=0 MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/alice/run/envjob.sh
   WorkDir=/home/alice/run
   Comment=hello 
   StdErr=/home/alice/run/env_batch_stdout.txt
   StdIn=/dev/null
   StdOut=/home/alice/run/env_batch_stdout.txt
   Power=
   TresPerNode=gres:gpu:2
   

"""
DETAILS = ("DerivedExitCode=", "JOB_GRES=", "  Nodes=")
PENDING = """\
JobId=3 JobName=big
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=20 Nice=0 Account=root QOS=normal
   JobState=PENDING Reason=Resources Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=02:00:00 TimeMin=N/A
   SubmitTime=2026-11-21T08:39:04 EligibleTime=2026-11-21T08:39:04
   AccrueTime=2026-11-21T08:39:04
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-21T08:39:05 Scheduler=Main
   Partition=batch AllocNode:Sid=localhost:1955
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=
   NumNodes=8-8 NumCPUs=8 NumTasks=8 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=8,mem=500G,node=8,billing=8
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=1 MinMemoryNode=62.50G MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=NO Contiguous=0 Licenses=(null) Network=(null)
   Command=(null)
   WorkDir=/home/alice/run
   StdErr=/dev/null
   StdIn=/dev/null
   StdOut=/dev/null
   Power=
   

"""
NODE = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=16 
   CPUAlloc=6 CPUEfctv=16 CPUTot=16 CPULoad=3.35
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=gpu:8
   NodeAddr=127.0.0.1 NodeHostName=login1 Port=17001 Version=22.05.8
   OS=Linux 6.18.44-fc-v445 #1 SMP PREEMPT_DYNAMIC @0 
   RealMemory=64000 AllocMem=0 FreeMem=22264 Sockets=1 Boards=1
   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=batch,urgent,small 
   BootTime=2026-11-21T08:02:42 SlurmdStartTime=2026-11-21T08:38:27
   LastBusyTime=2026-11-21T08:38:27
   CfgTRES=cpu=16,mem=62.50G,billing=16,gres/gpu=8
   AllocTRES=cpu=6,gres/gpu=2
   CapWatts=n/a
   CurrentWatts=0 AveWatts=0
   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s

"""
PARTITION = """\
PartitionName=small
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=NO QoS=N/A
   DefaultTime=00:10:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=2 MaxTime=01:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
   Nodes=n[1-2]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=32 TotalNodes=2 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
   TRES=cpu=32,mem=125G,node=2,billing=32,gres/gpu=16

"""
STEP = """\
StepId=1.batch UserId=0 StartTime=2026-11-21T08:39:05 TimeLimit=UNLIMITED
   State=RUNNING Partition=batch NodeList=n1
   Nodes=1 CPUs=0 Tasks=1 Name=batch Network=(null)
   TRES=(null)
   ResvPorts=(null)
   CPUFreqReq=Default
   SrunHost:Pid=(null):0

"""


def _text(view: JobView, **how: bool) -> str:
    return job_text(job_row(view, NOW), **how)


def _fields(view: JobView, **how: bool) -> dict[str, str]:
    """Key -> value of the record; values with blanks are cut at the first."""
    words = _text(view, one_line=True, **how).split()
    return dict(word.partition("=")[::2] for word in words if "=" in word)


def _recorded(job_id: int) -> JobView:
    return next(view for view in recorded_jobs() if view.job.id == job_id)


def test_running_job() -> None:
    assert _text(running_view(), details=True) == RUNNING
    plain = [line for line in RUNNING.split("\n") if not line[3:].startswith(DETAILS)]
    assert _text(running_view()) == "\n".join(plain)


def test_one_line() -> None:
    lines = [line[3:] if line.startswith("   ") else line for line in RUNNING.rstrip().split("\n")]
    one = " ".join(line for line in lines if not line.startswith(DETAILS))
    assert _text(running_view(), one_line=True) == one + " \n"


def test_pending_job() -> None:
    assert _text(_recorded(3)) == PENDING


def test_dependency() -> None:
    fields = _fields(_recorded(4))
    assert fields["Dependency"] == "afterok:3(unfulfilled)"
    assert fields["EligibleTime"] == fields["AccrueTime"] == "Unknown"
    assert fields["LastSchedEval"] == "2026-11-21T08:39:04"


def test_begin_time() -> None:
    fields = _fields(_recorded(6))
    assert fields["StartTime"] == fields["EligibleTime"] == "2026-11-21T09:39:04"
    assert fields["EndTime"] == "2026-11-21T10:09:04"


def test_array() -> None:
    first = "JobId=2 ArrayJobId=2 ArrayTaskId=2-19%2 ArrayTaskThrottle=2 JobName=arr\n"
    assert _text(array_rest_view()).startswith(first)
    task = ended_view(9, JobState.COMPLETED, array_job_id=JobId(2), array_task_id=1, array_limit=2)
    second = "JobId=9 ArrayJobId=2 ArrayTaskId=1 ArrayTaskThrottle=2 JobName=wrap\n"
    assert _text(task).startswith(second)


def test_planned_nodes() -> None:
    view = a_job_view(3, view={"planned_nodes": (NodeName("n1"), NodeName("n2"))})
    assert "\n   NodeList= SchedNodeList=n[1-2]\n" in _text(view)


def test_exit_codes_and_restarts() -> None:
    view = ended_view(
        5, JobState.FAILED, Reason.NON_ZERO_EXIT, exit_code=3, derived_exit_code=4, derived_exit_signal=9,
        requeues={"user": 1, "launch_failure": 2},
    )  # fmt: skip
    fields = _fields(view, details=True)
    assert (fields["ExitCode"], fields["DerivedExitCode"], fields["Restarts"]) == ("3:0", "4:9", "1")
    assert (fields["JobState"], fields["Reason"]) == ("FAILED", "NonZeroExitCode")


def test_what_was_asked_for() -> None:
    request: dict[str, Any] = {
        "nodes_min": 3, "nodes_max": 3, "tasks": 6, "tasks_per_node": 2, "memory_per_node_mib": 0,
        "memory_per_cpu_mib": 200, "gpus_total": 3, "required_nodes": (NodeName("n2"),),
        "excluded_nodes": (NodeName("n7"), NodeName("n8")), "features": "a&b",
    }  # fmt: skip
    spec = {"gpus": "3", "tasks_per_node": 2, "memory_per_gpu_mib": 2048, "cpus_per_gpu": 4}
    fields = _fields(a_job_view(14, request=request, spec=spec))
    assert fields["NtasksPerN:B:S:C"] == "2:0:*:*"
    assert fields["MinCPUsNode"] == "2"
    assert fields["MinMemoryCPU"] == "200M"
    assert "MinMemoryNode" not in fields
    assert (fields["ReqNodeList"], fields["ExcNodeList"], fields["Features"]) == ("n2", "n[7-8]", "a&b")
    assert fields["TresPerJob"] == "gres:gpu:3"
    assert (fields["CpusPerTres"], fields["MemPerTres"]) == ("gres:gpu:4", "gres:gpu:2048")
    assert fields["TRES"] == "cpu=6,mem=1200M,node=3,billing=6,gres/gpu=3"


def test_where_it_wants_to_be() -> None:
    request: dict[str, Any] = {
        "topology_level": "rack", "topology_required": True, "switches": 2, "switches_wait_s": 90.0,
    }  # fmt: skip
    fields = _fields(a_job_view(14, request=request))
    assert (fields["Switches"], fields["Topology"]) == ("2@00:01:30", "rack:required")
    assert not {"Switches", "Topology"} & set(_fields(a_job_view(14)))


def test_an_elastic_job() -> None:
    view = a_job_view(14, request={"nodes_min": 2, "nodes_max": 8, "nodes_step": -1})
    spec = replace(view.job.spec, elastic="in-place", elastic_signal=10)
    job = replace(view.job, spec=spec, resize_time=view.job.submit_time, resized_from=2, resize_kind="grow")
    fields = _fields(replace(view, job=replace(job, leaving=(NodeName("n2"),))))
    assert (fields["Elastic"], fields["ElasticNodes"], fields["ElasticStep"]) == ("in-place", "2-8", "double")
    assert (fields["ElasticSignal"], fields["ResizedFrom"], fields["ResizeReason"]) == ("USR1", "2", "grow")
    assert (fields["ResizeTime"], fields["Leaving"]) == (fields["SubmitTime"], "n2")
    assert "Elastic" not in _fields(a_job_view(14))


def test_nodes_that_got_the_same_share_a_line() -> None:
    same = tuple(part(f"n{i}", range(2), range(1)) for i in range(2, 5))
    view = running_view(allocation=(*same, part("n5", range(2), range(1, 2), 100)))
    text = _text(view, details=True)
    assert "     Nodes=n[2-4] CPU_IDs=0-1 Mem=0 GRES=gpu:1(IDX:0)\n" in text
    assert "     Nodes=n5 CPU_IDs=0-1 Mem=100 GRES=gpu:1(IDX:1)\n" in text


def test_without_gpus() -> None:
    text = _text(running_view(allocation=(part("n1", range(2)),), spec={}), details=True)
    assert "   JOB_GRES=(null)\n     Nodes=n1 CPU_IDs=0-1 Mem=0 GRES=\n" in text
    assert "TresPer" not in text


def test_gpu_types_are_named() -> None:
    view = running_view(request={"gpu_type": "a100", "memory_per_node_mib": 0})
    assert _fields(view)["TRES"] == "cpu=8,node=2,billing=8,gres/gpu=4,gres/gpu:a100=4"
    text = _text(view, details=True)
    assert "JOB_GRES=gpu:a100:4\n" in text
    assert "GRES=gpu:a100:2(IDX:0-1)\n" in text


def test_an_allocation_has_no_streams() -> None:
    fields = _fields(running_view(spec={"is_batch": False}))
    assert fields["BatchFlag"] == "0"
    assert fields["Command"] == "(null)"
    assert not {"StdErr", "StdIn", "StdOut"} & set(fields)


def test_no_time_limit() -> None:
    fields = _fields(running_view(time_limit_s=0.0))
    assert (fields["TimeLimit"], fields["EndTime"]) == ("UNLIMITED", "Unknown")


def test_a_record_stays_a_record() -> None:
    view = a_job_view(1, "x\n   JobState=COMPLETED", comment="\x1b[2Jbad")
    text = _text(view)
    assert text.count("\n") == _text(a_job_view(1, comment="good")).count("\n")
    assert "\x1b" not in text


def test_node() -> None:
    assert node_text(recorded_nodes()[0]) == NODE
    assert node_text(recorded_nodes()[0], one_line=True) == " ".join(NODE.rstrip("\n").split("\n   ")) + "\n"


def test_node_details_and_reason() -> None:
    view = a_node_view("n3", state="IDLE+DRAIN*", reason="bad disk", reason_time=at("08:39:04"))
    text = node_text(view, details=True)
    assert "   Gres=gpu:8\n   GresDrain=N/A\n   GresUsed=gpu:0(IDX:N/A)\n" in text
    assert "   State=IDLE*+DRAIN ThreadsPerCore=1" in text
    assert text.endswith("ExtSensorsTemp=n/s\n   Reason=bad disk [root@2026-11-21T08:39:04]\n\n")
    assert "   AllocTRES=\n" in text


def test_node_with_two_gpu_types() -> None:
    view = a_node_view("n3", gpus_used=0b110)
    groups = (GpuGroup(2, "a100"), GpuGroup(2, "h100"))
    view = replace(view, node=replace(view.node, spec=replace(view.node.spec, gpus=groups)))
    text = node_text(view, details=True)
    assert "   Gres=gpu:a100:2,gpu:h100:2\n" in text
    assert "   GresUsed=gpu:a100:1(IDX:1),gpu:h100:1(IDX:2)\n" in text
    assert "billing=16,gres/gpu=4,gres/gpu:a100=2,gres/gpu:h100=2\n" in text
    assert "   AllocTRES=gres/gpu=2,gres/gpu:a100=1,gres/gpu:h100=1\n" in text


def test_partition() -> None:
    assert partition_text(recorded_partitions()[2]) == PARTITION
    assert partition_text(recorded_partitions()[0]).splitlines()[2:5] == [
        "   AllocNodes=ALL Default=YES QoS=N/A",
        "   DefaultTime=00:30:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
        "   MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
    ]


def test_step() -> None:
    step = Step(BATCH_STEP, "batch", (NodeName("n1"),), 1, start_time=at("08:39:05"))
    rows = step_rows([job_row(running_view(steps={BATCH_STEP: step}), NOW)])
    assert [step_text(row) for row in rows] == [STEP]


def test_configuration() -> None:
    values = {
        "MinJobAge": "300 sec",
        "BcastParameters": "(null)",
        "timers.min_job_age_s": "300.0",
        "AccountingStorageBackupHost": "(null)",
    }
    text = configuration_text(ConfigurationView(values, at("08:38:26"), JobId(10)), NOW)
    assert text == (
        "Configuration data as of 2026-11-21T08:39:08\n"
        "AccountingStorageBackupHost = (null)\n"
        "BcastParameters         = (null)\n"
        "BOOT_TIME               = 2026-11-21T08:38:26\n"
        "MinJobAge               = 300 sec\n"
        "NEXT_JOB_ID             = 10\n"
        "\n"
        "minislurm configuration:\n"
        "timers.min_job_age_s    = 300.0\n"
    )


def test_whose_jobs_a_partition_takes() -> None:
    partition = PartitionView(
        "p", allow_accounts=("a", "b"), deny_accounts=("c",), deny_qos=("low",), qos="part"
    )
    lines = partition_text(replace(partition, allow_groups=("staff",))).splitlines()
    assert lines[1].strip() == "AllowGroups=staff AllowAccounts=a,b DenyQos=low"
    assert lines[2].strip() == "AllocNodes=ALL Default=NO QoS=part"
    assert "MaxPriority" not in partition_text(partition)
    ranged = partition_text(replace(partition, min_priority=5))
    assert ranged.endswith("\n   MinPriority=5 MaxPriority=NONE\n\n")
