"""`scontrol show job`: one job as Slurm prints it, field for field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minislurm.cli.job_fields import cpus_per_tres, exclusive_text, licenses_text, memory_per_tres, time_text
from minislurm.cli.job_row import JobRow
from minislurm.cli.record import record_text
from minislurm.cli.resource_text import (
    NULL,
    allocated_gres_text,
    gpu_name,
    index_list,
    memory_text,
    min_cpus_per_node,
    tres_per_job,
    tres_per_node,
    tres_per_task,
)
from minislurm.domain.hostlist import compress
from minislurm.domain.job import Job
from minislurm.domain.memory import format_size
from minislurm.domain.preemption import PreemptionWish
from minislurm.domain.resources import DOUBLING, NodeAllocation, ResourceRequest
from minislurm.domain.signals import signal_name
from minislurm.domain.times import format_duration_long, format_time


def job_text(row: JobRow, *, one_line: bool = False, details: bool = False, why: Sequence[str] = ()) -> str:
    """`why`: minislurm's own lines, after Slurm's."""
    return record_text([*_lines(row, details), *why], one_line=one_line, trailing_line=True)


def _comebacks(job: Job) -> Iterator[str]:
    """What it asked to become of it, and how often it has come back; only where there is something to say."""
    spec = job.spec
    limits = ",".join(f"{cause}:{count}" for cause, count in spec.max_requeues.items())
    counts = ",".join(f"{cause}:{count}" for cause, count in sorted(job.requeues.items()))
    spares = compress([part.node for part in job.spares])
    words = {
        "Requeues": counts, "MaxRequeues": limits, "OnNodeFail": spec.on_node_fail,
        "OnTaskFail": spec.on_task_fail, "RequeueOnTimeout": "1" if spec.requeue_on_timeout else "",
        "SpareNodes": str(spec.spare_nodes or ""), "SpareNodeList": spares,
    }  # fmt: skip
    said = " ".join(f"{name}={text}" for name, text in words.items() if text)
    if said:
        yield said


def _lines(row: JobRow, details: bool) -> Iterator[str]:
    job, spec, request = row.job, row.job.spec, row.job.request
    yield _identity(row)
    if job.is_component:
        yield f"HetJobIdSet={row.het_ids}"
    yield f"UserId={spec.user_name}({spec.user_id}) GroupId={spec.group_name}({spec.group_id}) MCS_label=N/A"
    yield f"Priority={row.priority} Nice={job.nice} Account={spec.account or NULL} QOS={spec.qos or NULL}"
    if job.bid:
        yield f"Bid={job.bid:.10g} Price={job.price:.10g}"
    if spec.preemption is not None:
        yield f"Preemption={preemption_text(spec.preemption)}"
    yield f"JobState={job.state.value} Reason={row.reason} Dependency={row.dependency_text or NULL}"
    yield (
        f"Requeue={int(job.requeue)} Restarts={job.restarts} BatchFlag={int(spec.is_batch)} Reboot=0 "
        f"ExitCode={job.exit_code}:{job.exit_signal}"
    )
    yield from _comebacks(job)
    if details:
        yield f"DerivedExitCode={job.derived_exit_code}:{job.derived_exit_signal}"
    yield from _times(row)
    yield f"Partition={job.partition} AllocNode:Sid={spec.submit_host or NULL}:{spec.submit_pid}"
    yield (
        f"ReqNodeList={compress(request.required_nodes) or NULL} "
        f"ExcNodeList={compress(request.excluded_nodes) or NULL}"
    )
    planned = f" SchedNodeList={compress(row.view.planned_nodes)}" if row.view.planned_nodes else ""
    yield f"NodeList={row.node_list}{planned}"
    if row.nodes:
        yield f"BatchHost={row.nodes[0]}"
    yield (
        f"NumNodes={_node_count(row)} NumCPUs={row.cpu_count} NumTasks={job.tasks} "
        f"CPUs/Task={request.cpus_per_task} ReqB:S:C:T=0:0:*:*"
    )
    yield f"TRES={row.tres}"
    yield f"Socks/Node=* NtasksPerN:B:S:C={spec.tasks_per_node or 0}:0:*:* CoreSpec=*"
    if details and row.nodes:
        yield from _allocation(row)
    yield f"MinCPUsNode={min_cpus_per_node(request)} {_min_memory(row)} MinTmpDiskNode=0"
    yield f"Features={request.features or NULL} DelayBoot=00:00:00"
    if request.reservation:
        yield f"Reservation={request.reservation}"
    licenses = licenses_text(row) or NULL
    yield f"OverSubscribe={exclusive_text(row)} Contiguous=0 Licenses={licenses} Network={NULL}"
    yield f"Command={' '.join((spec.command, *spec.script_arguments)).strip() or NULL}"
    yield f"WorkDir={spec.work_dir}"
    if job.comment:
        yield f"Comment={job.comment} "
    if spec.is_batch:
        yield f"StdErr={row.view.std_err}"
        yield f"StdIn={row.view.std_in}"
        yield f"StdOut={row.view.std_out}"
    if job.asked_request.switches:
        wait = format_duration_long(job.asked_request.switches_wait_s)
        yield f"Switches={job.asked_request.switches}@{wait}"
    if request.topology_level or request.segment:
        yield _place(request)
    if job.is_elastic:
        yield from _elastic(row)
    yield from _checkpoints(row)
    yield "Power="
    yield from _requested_tres(row)


def _checkpoints(row: JobRow) -> Iterator[str]:
    """minislurm's own lines: the last checkpoint, and how one is made."""
    job, spec = row.job, row.job.spec
    if job.checkpoints:
        last = job.checkpoints[-1]
        size = format_size(last.size_bytes)
        yield (
            f"Checkpoint={last.path} CheckpointStep={last.step if last.step >= 0 else NULL} "
            f"CheckpointTime={format_time(last.time)} CheckpointRun={last.run} CheckpointSize={size}"
        )
    if job.checkpoint_requested:
        until = format_time(job.checkpoint_deadline) if job.checkpoint_deadline else "None"
        yield (
            f"CheckpointRequested={format_time(job.checkpoint_requested)} "
            f"CheckpointReason={job.checkpoint_reason} CheckpointDeadline={until}"
        )
    if spec.checkpoint_dir or spec.checkpoint_command or spec.checkpoint_signal is not None:
        asked = spec.checkpoint_signal
        grace = f"@{asked.grace_s:g}" if asked is not None and asked.grace_s is not None else ""
        shells = "B:" if asked is not None and asked.to_shells else ""
        signal = f"{shells}{signal_name(asked.signal)}{grace}" if asked is not None else NULL
        interval = format_duration_long(spec.checkpoint_interval_s) if spec.checkpoint_interval_s else "None"
        yield (
            f"CheckpointDir={spec.checkpoint_dir or NULL} CheckpointInterval={interval} "
            f"CheckpointSignal={signal} CheckpointKeep={spec.checkpoint_keep or 'ALL'} "
            f"CheckpointCommand={spec.checkpoint_command or NULL}"
        )


def _place(request: ResourceRequest) -> str:
    """minislurm's own line: Slurm knows a level only by --switches."""
    level = request.topology_level or NULL
    if request.topology_level:
        level += ":required" if request.topology_required else ":preferred"
    return f"Topology={level} Segment={request.segment}"


def _elastic(row: JobRow) -> Iterator[str]:
    """minislurm's own lines: how the job changes its size, and how it last did."""
    job, request = row.job, row.job.request
    step = "double" if request.nodes_step == DOUBLING else str(max(1, request.nodes_step))
    signal = f" ElasticSignal={signal_name(job.spec.elastic_signal)}" if job.spec.elastic_signal else ""
    bounds = f"{request.nodes_min}-{request.nodes_max}"
    yield f"Elastic={job.spec.elastic} ElasticNodes={bounds} ElasticStep={step}{signal}"
    if job.resize_time:
        time = format_time(job.resize_time)
        yield f"ResizeTime={time} ResizedFrom={job.resized_from} ResizeReason={job.resize_kind}"
    if job.joining or job.leaving:
        joining = compress(part.node for part in job.joining) or NULL
        yield f"Joining={joining} Leaving={compress(job.leaving) or NULL}"


def _identity(row: JobRow) -> str:
    job = row.job
    array = ""
    if row.in_array:
        array = f" ArrayJobId={row.array_job_id} ArrayTaskId={row.task_text}"
        if job.array_limit:
            array += f" ArrayTaskThrottle={job.array_limit}"
    elif job.is_component:
        array = f" HetJobId={job.het_job_id} HetJobOffset={job.het_job_offset}"
    return f"JobId={job.id}{array} JobName={job.name}"


def preemption_text(wish: PreemptionWish) -> str:
    """As given to --preemption."""
    words = [wish.policy] if wish.policy else []
    if wish.min_difference is not None:
        words.append(f"difference={wish.min_difference}")
    if wish.max_victims is not None:
        words.append(f"victims={wish.max_victims}")
    return ",".join(words)


def _times(row: JobRow) -> Iterator[str]:
    job = row.job
    yield (
        f"RunTime={format_duration_long(row.elapsed_s)} TimeLimit={format_duration_long(row.time_limit_s)} "
        f"TimeMin=N/A"
    )
    yield f"SubmitTime={format_time(job.submit_time)} EligibleTime={format_time(row.eligible_time)}"
    yield f"AccrueTime={format_time(row.accrue_time)}"
    yield (
        f"StartTime={format_time(row.start_time)} EndTime={format_time(row.end_time)} "
        f"Deadline={time_text(job.deadline)}"
    )
    if row.view.preemptable_time or row.preempt_time:
        times = (format_time(t) if t else "None" for t in (row.view.preemptable_time, row.preempt_time))
        yield "PreemptEligibleTime={} PreemptTime={}".format(*times)
    yield (
        f"SuspendTime=None SecsPreSuspend={int(job.suspended_time_s)} "
        f"LastSchedEval={format_time(row.view.last_considered)} Scheduler=Main"
    )


def _node_count(row: JobRow) -> str:
    """A pending job's is a range."""
    if not row.is_pending:
        return str(row.node_count)
    return f"{row.node_count}-{max(row.node_count, row.job.request.nodes_max)}"


def _min_memory(row: JobRow) -> str:
    request = row.job.request
    if request.memory_per_cpu_mib and not request.memory_per_node_mib:
        return f"MinMemoryCPU={memory_text(request.memory_per_cpu_mib)}"
    return f"MinMemoryNode={memory_text(request.memory_per_node_mib)}"


def _allocation(row: JobRow) -> Iterator[str]:
    """What the run got on which nodes; neighbours that got the same share a line."""
    gpu_type = row.job.request.gpu_type
    total = sum(part.gpu_count for part in row.job.allocation)
    yield f"JOB_GRES={f'{gpu_name(gpu_type)}:{total}' if total else NULL}"
    groups: list[list[NodeAllocation]] = []
    for part in row.job.allocation:
        last = groups[-1][0] if groups else None
        if last and (last.cpus, last.memory_mib, last.gpus) == (part.cpus, part.memory_mib, part.gpus):
            groups[-1].append(part)
        else:
            groups.append([part])
    for group in groups:
        part = group[0]
        yield (
            f"  Nodes={compress(part.node for part in group)} CPU_IDs={index_list(part.cpus)} "
            f"Mem={part.memory_mib} GRES={allocated_gres_text(part, gpu_type)}"
        )


def _requested_tres(row: JobRow) -> Iterator[str]:
    spec = row.job.spec
    for name, text in (
        ("CpusPerTres", cpus_per_tres(row)),
        ("MemPerTres", memory_per_tres(row)),
        ("TresPerJob", tres_per_job(spec)),
        ("TresPerNode", tres_per_node(spec)),
        ("TresPerTask", tres_per_task(spec)),
    ):
        if text:
            yield f"{name}={text}"
