"""The configuration: every key there is, its type, its default. `configuration_file` reads it from TOML.

Keys stand in the file as `[section] key`; field names are the keys. Units last: `_s` seconds (fractions
allowed), `_mib` mebibytes. `etc/minislurm.toml` explains each key to its user.
"""

from __future__ import annotations

from msgspec import Struct

from minislurm.domain.ids import NodeName
from minislurm.domain.node import NodeSpec
from minislurm.domain.states import PartitionState


class ClusterSection(Struct, frozen=True):
    name: str = "cluster"
    controller_host: str = "127.0.0.1"
    controller_port: int = 6817
    #: Journal, key, generated files. The controller's own; clients need only what they can read.
    state_dir: str = "/var/lib/minislurm"


class AuthSection(Struct, frozen=True):
    #: Signs every credential; mode 0600. "": `state_dir`/auth.key
    key_file: str = ""
    #: Where the host's agent listens; "": `state_dir`/run/agent.sock
    agent_socket: str = ""
    token_lifetime_s: float = 120.0


class TimersSection(Struct, frozen=True):
    heartbeat_interval_s: float = 5.0
    #: Silence after which a node is not offered new work.
    node_suspect_s: float = 12.0
    #: Silence after which a node is DOWN and its runs are lost.
    node_timeout_s: float = 60.0
    #: So long after that a lost node still has to end its runs itself; only then they start elsewhere.
    node_grace_s: float = 3.0
    #: All nodes of a gang must have answered PREPARE by then.
    prepare_timeout_s: float = 20.0
    #: Between SIGTERM and SIGKILL.
    kill_wait_s: float = 30.0
    #: A requeued job is eligible again after this.
    requeue_delay_s: float = 0.0
    #: Ended jobs stay visible at least so long.
    min_job_age_s: float = 300.0
    #: A request id is remembered so long.
    request_memory_s: float = 3600.0
    #: An srun or salloc that the controller no longer hears from loses its allocation after this.
    client_grace_s: float = 10.0
    #: A command tries so long to reach the controller.
    connect_timeout_s: float = 1.0
    #: A call that got no answer in this time is tried again by the client, with the same request id.
    call_timeout_s: float = 30.0
    #: A node whose daemon lost the controller tries to connect again after this.
    reconnect_interval_s: float = 0.5


class JournalSection(Struct, frozen=True):
    #: Everything that arrives within this time shares one transaction.
    group_commit_s: float = 0.0
    #: The journal is folded into the snapshot after so many events.
    snapshot_every_events: int = 1000
    #: Events kept behind the snapshot, for `minislurm replay`.
    keep_events: int = 20000
    #: While the store cannot be written it is tried again after this.
    retry_interval_s: float = 1.0


class SchedulerSection(Struct, frozen=True):
    #: A pass starts so long after the change that calls for it.
    batching_delay_s: float = 0.002
    #: "multifactor", "fair" (who has least of its fair share), "fifo", "sjf" (the shortest first), "mlfq"
    #: (who had least), "auction" (the highest bid) or "round-robin" (time slices)
    order: str = "multifactor"
    #: "easy", "conservative" or "off"
    backfill: str = "easy"
    #: So many jobs of a partition get a reservation under conservative backfill.
    conservative_depth: int = 100
    #: In which order jobs are tried behind a blocked one: "queue", or "shortest" time limit first
    backfill_order: str = "queue"
    #: So many blocked requests are looked at behind the head of the queue.
    backfill_depth: int = 1000
    #: One of scheduling.strategies.STRATEGIES.
    placement: str = "binpack"
    #: A pass gives way to client calls after so long.
    yield_after_s: float = 0.004
    priority_weight_age: int = 1000
    priority_weight_job_size: int = 0
    priority_weight_partition: int = 1000
    priority_max_age_s: float = 7 * 86400.0
    priority_favor_small: bool = False
    #: No job waits longer than this for few leaf domains (``--switches``).
    max_switch_wait_s: float = 300.0
    #: Factors of the account tree; all 0 while there is none.
    priority_weight_fair_share: int = 10_000
    priority_weight_qos: int = 10_000
    priority_weight_association: int = 1000
    #: What "sjf" takes for a job's length: its "limit", or the "history" of the user's similar jobs
    sjf_by: str = "limit"
    #: "mlfq": the service at which each next level begins, GPU-seconds, ascending
    mlfq_levels: str = "3600,36000"
    #: "mlfq": who waits so many times as long as it has run is raised to the first level; 0: nobody
    mlfq_promote: float = 8.0
    #: "round-robin": a run that has lasted so long gives way to who waits
    time_slice_s: float = 3600.0
    #: A large gang that has waited so long goes first in its tier; 0: none does
    large_gang_wait_s: float = 2 * 86400.0
    #: Large: of more than this part of its partition's nodes, CPUs or GPUs
    large_gang_share: float = 0.25


class PreemptionSection(Struct, frozen=True):
    #: What becomes of a run whose nodes a job of a higher tier needs: "requeue", "cancel", or "off": nothing
    mode: str = "off"
    #: Between SIGTERM and SIGKILL.
    grace_s: float = 30.0
    #: A run that has not lasted so long is left alone.
    exempt_s: float = 0.0
    #: So many times a job is preempted at most; 0: no limit
    limit_per_job: int = 0
    #: So many runs end for one job at most; 0: no limit
    max_victims: int = 0
    #: Who gives way first: who loses least ("cost"); or as other systems have it, for comparison: "youngest",
    #: lowest "priority", fewest "nodes", or of other "accounts", then by priority, then the youngest
    victim_order: str = "cost"
    #: What accounts take back from those that borrow: "off", their "guarantee", or their "fair_share" as well
    reclaim: str = "off"
    #: A run that has come back after a preemption is left alone for so long.
    cooldown_s: float = 0.0
    #: Nobody gives way to a job whose priority is not by so much above its own; 0: that does not matter
    min_priority_difference: int = 0
    #: A job waits so long at most for the next checkpoints of those that are to give way to it.
    checkpoint_wait_s: float = 60.0
    #: From a job's start until it does new work, where it does not say.
    restart_s: float = 30.0
    #: A run that can be asked for a checkpoint has so long to make it before it is ended, unless its
    #: --checkpoint-signal says otherwise, which it may up to the limit.
    checkpoint_grace_s: float = 60.0
    checkpoint_grace_limit_s: float = 600.0


class ElasticSection(Struct, frozen=True):
    #: So long after an elastic job's run has started, or its size was changed, it does not grow.
    grow_cooldown_s: float = 60.0
    #: So long after it gave nodes back it is not asked for more, unless its asker outranks it.
    shrink_cooldown_s: float = 30.0


class AccountsSection(Struct, frozen=True):
    #: "limits", "associations" (who may submit, but no limits) or "off". Nothing is enforced before the
    #: first account is added.
    enforce: str = "limits"
    #: Past usage counts half after so long; 0: it never fades.
    decay_half_life_s: float = 7 * 86400.0
    #: What a second of each TRES costs in usage: "cpu=1.0,mem=0.25G,gres/gpu=8.0"
    billing_weights: str = "cpu=1.0,gres/gpu=8.0"


class LimitsSection(Struct, frozen=True):
    max_job_count: int = 100_000
    max_array_size: int = 20_001
    first_job_id: int = 1
    max_step_count: int = 40_000
    max_script_bytes: int = 4 * 1024 * 1024
    max_environment_bytes: int = 2 * 1024 * 1024


class JobsSection(Struct, frozen=True):
    #: Jobs may be requeued unless they say --no-requeue.
    requeue: bool = True
    #: Memory of a job that asks for none: MiB for each CPU; 0: not accounted.
    default_memory_per_cpu_mib: int = 0
    kill_on_invalid_dependency: bool = False
    #: Octal, as a string. Mode of output files that a run creates.
    output_file_mode: str = "0600"
    #: Of jobs that say nothing else (--max-requeues): so often they come back for each cause, then they are
    #: held.
    max_requeues: str = "node_fail:10,launch_failure:20,task_fail:3"
    #: A requeued job stays away so long from a node that was lost under it, if there are others; 0: it does
    #: not.
    avoid_failed_node_s: float = 600.0
    #: ``--gres=shard:N`` counts in these; 0: there are none.
    shards_per_gpu: int = 0


class NodeSection(Struct, frozen=True):
    """What node daemons need; `{node}` stands for the node's name."""

    spool_dir: str = "/var/spool/minislurm/{node}"
    #: The step service listens here; 0: any free port.
    step_port: int = 0
    step_host: str = "127.0.0.1"
    #: "auto", "cgroup" or "process"
    tracking: str = "auto"
    #: "auto", "nvml" or "none"
    gpu_probe: str = "auto"
    #: Programs run as root on each node before a run starts and after it ended; "" for none.
    prolog: str = ""
    epilog: str = ""
    prolog_timeout_s: float = 60.0
    #: Where the node stands: "zone=a/rack=r7", or "file:PATH" of a file that says so; "": it does not say.
    topology: str = ""
    #: Run as the daemon's user every `health_check_interval_s`; what exits non-zero drains the node with the
    #: last line that it wrote. "": none.
    health_check_program: str = ""
    #: Also of the checks that are built in; 0: none is made.
    health_check_interval_s: float = 60.0
    health_check_timeout_s: float = 60.0
    #: When the program runs: "any", or some of "idle", "alloc", "mixed" (by the node's CPUs) and
    #: "start_only".
    health_check_states: str = "any"
    #: Free space below which a node is drained, in the spool and in /tmp; 0: not checked.
    health_min_free_mib: int = 256
    #: By so much the node's clock may differ from the controller's; 0.0: not checked.
    health_max_clock_offset_s: float = 30.0
    #: GPUs are asked for XID errors, ECC errors, rows that could not be remapped, and heat.
    health_check_gpus: bool = True
    #: A node that its checks have drained is undrained when they pass again.
    health_undrain: bool = True
    #: A node on which so many launches in a row fail is drained with the evidence; 0: never.
    drain_after_launch_failures: int = 3
    #: A node on which so many of its last runs failed, of different jobs and users, is drained with the
    #: evidence; 0: never. And how many of the last runs are looked at (at most 20).
    lemon_failures: int = 4
    lemon_runs: int = 10


class Partition(Struct, frozen=True):
    name: str
    nodes: tuple[NodeName, ...] = ()
    default: bool = False
    state: PartitionState = PartitionState.UP
    #: None: no limit.
    max_time_s: float | None = None
    #: None: `max_time_s`.
    default_time_s: float | None = None
    max_nodes: int | None = None
    min_nodes: int = 1
    #: Jobs of a higher tier are considered first, whatever their priority.
    priority_tier: int = 1
    priority_job_factor: int = 1
    default_memory_per_cpu_mib: int | None = None
    #: "": the scheduler's.
    placement: str = ""
    #: "": the scheduler's.
    order: str = ""
    #: "": the scheduler's.
    sjf_by: str = ""
    #: Of its jobs as victims; "" and None: as in [preemption].
    preempt_mode: str = ""
    preempt_grace_s: float | None = None
    preempt_exempt_s: float | None = None
    #: Whose jobs it takes (`partition_access.py`); (): everybody's. With `allow_…`, `deny_…` says nothing.
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    deny_qos: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] = ()
    #: The limits of this QOS hold for all its jobs, before those of the jobs' own; "": none.
    qos: str = ""
    #: The range in which its jobs' priorities are kept, and in which users may choose one.
    min_priority: int | None = None
    max_priority: int | None = None


class DomainSpec(Struct, frozen=True):
    """One domain of the topology tree: a rack, a block, a zone. Leaves hold nodes."""

    name: str
    level: str = "rack"
    #: Name of the domain above; "" at the top.
    parent: str = ""
    nodes: tuple[NodeName, ...] = ()


class License(Struct, frozen=True):
    """So many uses of a program at the same time, all over the cluster."""

    name: str
    count: int = 1


class Configuration(Struct, frozen=True):
    cluster: ClusterSection = ClusterSection()
    auth: AuthSection = AuthSection()
    timers: TimersSection = TimersSection()
    journal: JournalSection = JournalSection()
    scheduler: SchedulerSection = SchedulerSection()
    limits: LimitsSection = LimitsSection()
    jobs: JobsSection = JobsSection()
    accounts: AccountsSection = AccountsSection()
    preemption: PreemptionSection = PreemptionSection()
    elastic: ElasticSection = ElasticSection()
    node: NodeSection = NodeSection()
    nodes: tuple[NodeSpec, ...] = ()
    partitions: tuple[Partition, ...] = ()
    topology: tuple[DomainSpec, ...] = ()
    licenses: tuple[License, ...] = ()
    #: The file it came from; "" for none.
    path: str = ""

    def partition(self, name: str) -> Partition | None:
        return next((p for p in self.partitions if p.name == name), None)

    @property
    def default_partition(self) -> Partition | None:
        return next((p for p in self.partitions if p.default), None)

    @property
    def key_file(self) -> str:
        return self.auth.key_file or f"{self.cluster.state_dir}/auth.key"

    @property
    def agent_socket(self) -> str:
        return self.auth.agent_socket or f"{self.cluster.state_dir}/run/agent.sock"
