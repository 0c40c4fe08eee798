"""The configuration file: what it accepts, and that its complaints lead to the mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import fields, replace

from minislurm.domain.configuration import Configuration, DomainSpec, Partition, TimersSection
from minislurm.domain.configuration_file import (
    TABLES,
    effective,
    find,
    from_json,
    known_keys,
    load,
    parse,
    to_json,
    to_toml,
)
from minislurm.domain.configuration_values import gpu_groups, size_mib
from minislurm.domain.errors import ConfigurationError
from minislurm.domain.ids import NodeName
from minislurm.domain.resources import GpuGroup
from minislurm.domain.states import PartitionState
from tests.builders import a_configuration

SAMPLE = Path(__file__).parents[3] / "etc" / "minislurm.toml"

FULL = """
[cluster]
name = "farm"
[timers]
heartbeat_interval_s = 0.25
node_suspect = "0:01"
[jobs]
default_memory_per_cpu = "2G"
[[nodes]]
name = "gpu[01-04]"
cpus = 64
memory = "512G"
gpus = "a100:8"
features = ["a100", "nvlink"]
weight = 3
[[nodes]]
name = ["login1", "login2"]
gres = ["gpu:h100:2", "gpu:1"]
[[partitions]]
name = "batch"
nodes = "ALL"
default = true
max_time = "7-00:00:00"
default_time_s = 90.5
max_nodes = "UNLIMITED"
[[partitions]]
name = "debug"
nodes = "gpu[01-02]"
state = "drain"
placement = "spread"
[[topology]]
name = "rack1"
nodes = "gpu[01-02]"
[[topology]]
name = "rack2"
nodes = "gpu[03-04]"
[[topology]]
name = "block1"
level = "block"
children = "rack[1-2]"
"""


def complaint(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, "/etc/m.toml", overrides)
    return str(caught.value)


# --- reading ---------------------------------------------------------------------------------------------


def test_everything_that_a_file_can_say() -> None:
    configuration = parse(FULL)
    assert configuration.cluster.name == "farm"
    assert configuration.timers.heartbeat_interval_s == 0.25
    assert configuration.timers.node_suspect_s == 1.0
    assert configuration.timers.node_timeout_s == TimersSection().node_timeout_s
    assert configuration.jobs.default_memory_per_cpu_mib == 2048
    assert [spec.name for spec in configuration.nodes] == [
        "gpu01",
        "gpu02",
        "gpu03",
        "gpu04",
        "login1",
        "login2",
    ]
    gpu02, login1 = configuration.nodes[1], configuration.nodes[4]
    assert (gpu02.cpus, gpu02.memory_mib, gpu02.weight) == (64, 512 * 1024, 3)
    assert gpu02.gpus == (GpuGroup(8, "a100"),)
    assert gpu02.gpus_declared
    assert gpu02.features == ("a100", "nvlink")
    assert login1.gpus == (GpuGroup(2, "h100"), GpuGroup(1, ""))
    assert login1.cpus is None
    batch, debug = configuration.partitions
    assert len(batch.nodes) == 6
    assert batch.default
    assert batch.max_time_s == 7 * 86400.0
    assert batch.default_time_s == 90.5
    assert batch.max_nodes is None
    assert debug.state is PartitionState.DRAIN
    assert debug.nodes == ("gpu01", "gpu02")
    assert configuration.topology == (
        DomainSpec("rack1", "rack", "block1", (NodeName("gpu01"), NodeName("gpu02"))),
        DomainSpec("rack2", "rack", "block1", (NodeName("gpu03"), NodeName("gpu04"))),
        DomainSpec("block1", "block", "", ()),
    )


def test_a_node_that_says_nothing_of_gpus_declares_none_and_zero_does() -> None:
    silent, none = parse('[[nodes]]\nname="a"\n[[nodes]]\nname="b"\ngpus=0').nodes
    assert (silent.gpus, silent.gpus_declared) == ((), False)
    assert (none.gpus, none.gpus_declared) == ((), True)


def test_an_empty_file_is_all_defaults() -> None:
    assert parse("") == Configuration()


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        (8, (GpuGroup(8),)),
        ("8", (GpuGroup(8),)),
        ("gpu:8", (GpuGroup(8),)),
        ("a100:8", (GpuGroup(8, "a100"),)),
        ("gpu:a100:8", (GpuGroup(8, "a100"),)),
        ("a100:4, h100:2", (GpuGroup(4, "a100"), GpuGroup(2, "h100"))),
        (["a100:4", "a100:2"], (GpuGroup(6, "a100"),)),
        (0, ()),
    ],
)
def test_gpus_in_all_their_forms(value: object, groups: tuple[GpuGroup, ...]) -> None:
    assert gpu_groups(value) == groups


@pytest.mark.parametrize("value", [-1, True, 1.5, "a100", "a100:", "a100:x", "8:a100", [8], ""])
def test_gpus_that_are_none(value: object) -> None:
    if value == "":
        assert gpu_groups(value) == ()
        return
    with pytest.raises(ValueError, match="must be"):
        gpu_groups(value)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("512G", 524288), ("1000", 1000), ("1.5T", 1572864), ("800MB", 800), ("1K", 1), ("2 GiB", 2048)],
)
def test_sizes(text: str, mib: int) -> None:
    assert size_mib(text) == mib


# --- complaints ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[timers]\nhearbeat_interval_s = 5",
            "/etc/m.toml: [timers] hearbeat_interval_s = 5: unknown key; did you mean heartbeat_interval_s?",
        ),
        (
            "[timer]\na = 1",
            "/etc/m.toml: [timer]: unknown section; did you mean timers? (there are cluster, auth,",
        ),
        ("timers = 3", "/etc/m.toml: timers = 3: must be a section, [timers]"),
        ("[nodes]\nname = 'n1'", "/etc/m.toml: [nodes]: must be an array of tables, [[nodes]]"),
        ("[[nodes]]\ncpus = 3", "/etc/m.toml: [[nodes]] number 1: has no name"),
        (
            '[timers]\nkill_wait_s = "x"',
            '/etc/m.toml: [timers] kill_wait_s = "x": must be a number of seconds, 0 or more',
        ),
        ("[timers]\nkill_wait_s = -1", "[timers] kill_wait_s = -1: must be a number of seconds, 0 or more"),
        ("[timers]\nkill_wait_s = nan", "[timers] kill_wait_s = nan: must be a number of seconds"),
        (
            "[timers]\nkill_wait = 30",
            "[timers] kill_wait = 30: must be a string with its unit; for a plain number",
        ),
        ('[timers]\nkill_wait = "x"', '[timers] kill_wait = "x": must be a duration such as "30" (minutes)'),
        ('[timers]\nkill_wait = "1"\nkill_wait_s = 2', "kill_wait_s = 2: kill_wait says so already"),
        ("[timers]\nnode_timeout_s = 0", "[timers] node_timeout_s = 0: must be a number of seconds above 0"),
        (
            "[cluster]\ncontroller_port = 70000",
            "controller_port = 70000: must be a whole number from 1 to 65535",
        ),
        ("[cluster]\ncontroller_port = 1.5", "controller_port = 1.5: must be a whole number from 1 to 65535"),
        ("[cluster]\nname = 7", "[cluster] name = 7: must be a string"),
        ('[cluster]\nstate_dir = "here"', '[cluster] state_dir = "here": must be an absolute path'),
        ("[jobs]\nrequeue = 1", "[jobs] requeue = 1: must be true or false"),
        ('[jobs]\noutput_file_mode = "rw"', "must be a file mode in octal"),
        (
            '[scheduler]\nbackfill = "yes"',
            '[scheduler] backfill = "yes": must be "easy", "conservative" or "off"',
        ),
        ('[[nodes]]\nname = "n[1-"', '[[nodes]] n[1-: name = "n[1-": must be a hostlist such as'),
        (
            '[[nodes]]\nname = "n1"\nmemory = "lots"',
            '[[nodes]] n1: memory = "lots": must be a size such as "512G"',
        ),
        (
            '[[nodes]]\nname = "n1"\ngpus = "a100"',
            '[[nodes]] n1: gpus = "a100": must be a number, "TYPE:NUMBER"',
        ),
        ('[[nodes]]\nname = "n1"\ngpus = 1\ngres = "gpu:1"', "gpus says so already; give one of them"),
        (
            '[[partitions]]\nname = "p"\nstate = "on"',
            'state = "on": must be "UP", "DOWN", "DRAIN" or "INACTIVE"',
        ),
        ("[cluster", "/etc/m.toml: not valid TOML: "),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(text: str, expected: str) -> None:
    assert expected in complaint(text)


NODES = '[[nodes]]\nname = "gpu[01-04]"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[timers]\nnode_suspect_s = 5",
            "[timers] node_suspect_s = 5: must be above heartbeat_interval_s (5)",
        ),
        (
            "[timers]\nnode_timeout_s = 6",
            "[timers] node_timeout_s = 6: must be more than twice node_suspect_s (12)",
        ),
        ('[cluster]\nname = "a b"', '[cluster] name = "a b": must be letters, digits'),
        ('[node]\nspool_dir = "/x/{host}"', "{host} stands for nothing; there is {node}"),
        (NODES + '[[nodes]]\nname = "gpu04"', '[[nodes]] name = "gpu04": this node is there twice'),
        (
            NODES + '[[partitions]]\nname = "p"\nnodes = "gpu[03-06]"',
            '/etc/m.toml: [[partitions]] p: nodes = "gpu05": no such node; did you mean gpu04? (and 1 more)',
        ),
        (NODES + '[[partitions]]\nname = "p"', "[[partitions]] p: nodes: must name at least one node"),
        (
            NODES + '[[partitions]]\nname="p"\nnodes="ALL"\n[[partitions]]\nname="p"\nnodes="ALL"',
            '[[partitions]] name = "p": this partition is there twice',
        ),
        (
            NODES + '[[partitions]]\nname="p"\nnodes="ALL"\ndefault=true\n'
            '[[partitions]]\nname="q"\nnodes="ALL"\ndefault=true',
            "[[partitions]] q: default = true: p is the default already",
        ),
        (
            NODES + '[[partitions]]\nname="p"\nnodes="ALL"\nmax_time="1:00"\ndefault_time="2:00"',
            "[[partitions]] p: default_time_s = 120: is above max_time_s (60)",
        ),
        (
            NODES + '[[partitions]]\nname="p"\nnodes="ALL"\nmin_nodes=3\nmax_nodes=2',
            "[[partitions]] p: min_nodes = 3: is above max_nodes (2)",
        ),
        (
            NODES + '[[topology]]\nname="r1"\nnodes="gpu01"\n[[topology]]\nname="r2"\nnodes="gpu[01-02]"',
            '[[topology]] r2: nodes = "gpu01": gpu01 is in r1 already',
        ),
        (
            NODES + '[[topology]]\nname="a"\nparent="b"\n[[topology]]\nname="b"\nparent="a"',
            '[[topology]] a: parent = "b": a would lie inside itself',
        ),
        (NODES + '[[topology]]\nname="a"\nparent="a"', "a would lie inside itself"),
        (
            NODES + '[[topology]]\nname="rack1"\nnodes="gpu01"\nparent="blok"\n'
            '[[topology]]\nname="block"\nchildren="rack1"',
            "rack1 is in blok already",
        ),
        (
            NODES + '[[topology]]\nname="rack1"\nnodes="gpu01"\n[[topology]]\nname="b"\nchildren="rack2"',
            "no such domain rack2; did you mean rack1?",
        ),
        (NODES + '[[topology]]\nname="a"\nnodes="gpu01"\nparent="x"', 'parent = "x": no such domain'),
        (NODES + '[[topology]]\nname="a"', "[[topology]] a: holds nothing"),
        (
            NODES
            + '[[topology]]\nname="a"\nnodes="gpu01"\n[[topology]]\nname="b"\nnodes="gpu02"\nparent="a"',
            "[[topology]] a: nodes: a domain holds nodes or other domains, not both",
        ),
    ],
)
def test_values_that_contradict_each_other(text: str, expected: str) -> None:
    assert expected in complaint(text)


def test_all_that_is_wrong_is_said_at_once() -> None:
    lines = complaint("[timers]\nx = 1\n[jobs]\nrequeue = 3", "scheduler.placement=wide").split("\n")
    assert len(lines) == 3


def test_a_missing_file_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"gone\.toml: no such configuration file; name one with MINISLURM_CONF"
    ):
        load(str(tmp_path / "gone.toml"))


def test_where_the_file_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINISLURM_CONF", "/a.toml")
    assert find() == "/a.toml"
    assert find("/b.toml") == "/b.toml"
    monkeypatch.delenv("MINISLURM_CONF")
    assert find() == "/etc/minislurm/minislurm.toml"


def test_load_remembers_its_file(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(FULL)
    assert load(str(path)).path == str(path)


# --- overrides -------------------------------------------------------------------------------------------


def test_overrides_win_in_every_form() -> None:
    configuration = parse(
        FULL,
        "",
        [
            "timers.kill_wait_s=0.5",
            "scheduler.placement=spread",
            'scheduler.backfill="off"',
            "cluster.name=7",
            "jobs.requeue=false",
            "timers.node_timeout=30",
            "partitions.batch.max_time=30",
            "partitions.new.nodes=gpu0[1-2]",
            "nodes.gpu[01-02].weight=9",
            "nodes.ALL.cpus=4",
            "topology.rack1.level=row",
        ],
    )
    assert configuration.timers.kill_wait_s == 0.5
    assert configuration.scheduler.placement == "spread"
    assert configuration.scheduler.backfill == "off"
    assert configuration.cluster.name == "7"
    assert not configuration.jobs.requeue
    assert configuration.timers.node_timeout_s == 1800.0
    assert configuration.partitions[0].max_time_s == 1800.0
    assert configuration.partitions[2] == Partition("new", nodes=(NodeName("gpu01"), NodeName("gpu02")))
    assert [spec.weight for spec in configuration.nodes] == [9, 9, 3, 3, 1, 1]
    assert {spec.cpus for spec in configuration.nodes} == {4}
    assert configuration.topology[0].level == "row"


def test_an_override_wins_over_the_other_spelling_in_the_file() -> None:
    assert parse('[timers]\nkill_wait = "1"', "", ["timers.kill_wait_s=2"]).timers.kill_wait_s == 2.0


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("timers", "--set timers: must be section.key=value"),
        ("timers=3", "--set timers=3: must be section.key=value"),
        ("partitions.x=3", "must be section.key=value, or TABLE.NAME.key=value"),
        ("timers.a.b=3", "must be section.key=value"),
        ("timer.a=3", "--set timer.a=3: unknown section; did you mean timers?"),
        ("timers.kill_wait=x", "--set timers.kill_wait=x: must be a duration"),
        ("timers.kil_wait_s=1", "--set timers.kil_wait_s=1: unknown key; did you mean kill_wait_s?"),
        ("nodes.gpu09.cpus=1", "--set nodes.gpu09.cpus=1: no such node; did you mean gpu0"),
        ("nodes.gpu01.name=x", "a node's name cannot be overridden"),
        ("partitions.batch.nodes=n9", 'nodes = "n9": no such node'),
    ],
)
def test_a_wrong_override_is_named(override: str, expected: str) -> None:
    assert expected in complaint(FULL, override)


# --- writing ---------------------------------------------------------------------------------------------


def test_toml_round_trip() -> None:
    configuration = parse(FULL)
    assert parse(to_toml(configuration)) == configuration
    assert to_toml(configuration).count("[[nodes]]") == 2


@pytest.mark.parametrize(
    "configuration", [parse(FULL, "/etc/m.toml"), Configuration(), a_configuration(gpus=2, racks=2)]
)
def test_json_round_trip(configuration: Configuration) -> None:
    again = from_json(to_json(configuration))
    assert again == configuration
    assert again.path == configuration.path
    assert isinstance(again.timers.kill_wait_s, float)
    assert all(type(node.gpus) is tuple for node in again.nodes)


def test_json_of_another_version_is_read() -> None:
    assert from_json('{"cluster":{"name":"x","from_the_future":1},"new_section":{}}').cluster.name == "x"
    with pytest.raises(ValueError, match="not a configuration"):
        from_json("[1]")


def test_effective_values_are_text_by_dotted_key() -> None:
    values = effective(parse(FULL))
    assert values["timers.heartbeat_interval_s"] == "0.25"
    assert values["cluster.name"] == "farm"
    assert values["auth.key_file"] == "(null)"
    assert values["nodes.gpu[01-04].gpus"] == "a100:8"
    assert values["partitions.batch.nodes"] == "gpu[01-04],login[1-2]"
    assert values["partitions.batch.max_time_s"] == "604800"
    assert values["topology.rack1.parent"] == "block1"
    assert not any(key.endswith("gpus_declared") or key == "path" for key in values)


# --- the sample file -------------------------------------------------------------------------------------


def test_the_sample_file_is_valid_and_says_the_defaults() -> None:
    assert load(str(SAMPLE)) == Configuration(path=str(SAMPLE))


def test_the_sample_file_holds_every_key_and_explains_it() -> None:
    written: dict[str, set[str]] = {}
    section, above = "", ""
    for line in SAMPLE.read_text().splitlines():
        if heading := re.match(r"(?:# )?\[{1,2}(\w+)\]{1,2}$", line):
            section = heading[1]
        elif key := re.match(r"(?:# )?([a-z_]+) = ", line):
            written.setdefault(section, set()).add(key[1])
            assert above.startswith("#") or above, f"[{section}] {key[1]} has no comment"
        above = line
    sections = [field.name for field in fields(Configuration) if field.name != "path"]
    assert list(written) == sections
    for section in sections:
        known = set(known_keys(section))
        assert written[section] <= known
        # A key with a unit may stand there without it.
        short = {key + unit for key in written[section] for unit in ("_s", "_mib")}
        wanted = {key for key in known if key in _fields_of(section)}
        assert wanted <= written[section] | short, f"[{section}] lacks {wanted - written[section] - short}"


def _fields_of(section: str) -> set[str]:
    owner = TABLES.get(section) or type(getattr(Configuration(), section))
    return {field.name for field in fields(owner)}


def test_the_examples_in_the_sample_file_work() -> None:
    """The commented tables, without their comment signs."""
    _, examples = SAMPLE.read_text().split("# --- nodes")
    lines = [line[2:] for line in examples.splitlines() if re.match(r"# (\[\[|[a-z_]+ = )", line)]
    text = "\n".join(lines).replace('parent = "block1"', 'parent = "block1"\n[[topology]]\nname = "block1"')
    configuration = parse(text)
    assert len(configuration.nodes) == 64
    assert configuration.partitions[0].default_memory_per_cpu_mib == 2048


def test_ten_thousand_nodes_stay_quick_to_write_and_equal() -> None:
    configuration = parse('[[nodes]]\nname = "n[00001-10000]"\ncpus = 8\ngpus = 4')
    assert len(configuration.nodes) == 10_000
    assert 'name = "n[00001-10000]"' in to_toml(configuration)
    assert parse(to_toml(configuration)) == configuration
    odd = replace(configuration.nodes[5000], weight=2)
    changed = replace(configuration, nodes=(*configuration.nodes[:5000], odd, *configuration.nodes[5001:]))
    assert to_toml(changed).count("[[nodes]]") == 3


@pytest.mark.parametrize("mode", ["suspend", "checkpoint"])
def test_what_victims_cannot_do_yet_is_refused_by_name(mode: str) -> None:
    for key in ("[preemption]\nmode", '[[partitions]]\nname = "b"\npreempt_mode'):
        with pytest.raises(ConfigurationError, match=rf'mode = "{mode}": is not supported yet'):
            parse(f'{key} = "{mode}"')


@pytest.mark.parametrize("levels", ["5,5", "5,1", "0", "x", "1,inf", "-1"])
def test_levels_ascend(levels: str) -> None:
    with pytest.raises(ConfigurationError, match=r"mlfq_levels.*must be ascending numbers of GPU-seconds"):
        parse(f'[scheduler]\nmlfq_levels = "{levels}"')
    assert parse('[scheduler]\nmlfq_levels = ""').scheduler.mlfq_levels == ""


def test_whose_jobs_a_partition_takes() -> None:
    text = """[[partitions]]
name = "p"
allow_accounts = "Physics,bio"
deny_accounts = ["guests"]
allow_qos = "ALL"
allow_groups = ["staff"]
qos = "Limits"
max_priority = 500
"""
    (partition,) = parse(text).partitions
    assert (partition.allow_accounts, partition.deny_accounts) == (("Physics", "bio"), ("guests",))
    assert (partition.allow_qos, partition.allow_groups) == ((), ("staff",))
    assert (partition.qos, partition.max_priority) == ("limits", 500)
    assert parse(to_toml(parse(text))) == parse(text)
    with pytest.raises(ConfigurationError, match=r"min_priority = 501: is above max_priority \(500\)"):
        parse(text + "min_priority = 501")
