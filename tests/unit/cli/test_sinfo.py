"""What sinfo prints, against the recorded output of a real Slurm."""

from __future__ import annotations

import os
import time

import pytest
from msgspec.structs import replace

from minislurm.cli import connection, sinfo
from minislurm.domain.ids import NodeName, bitmap_of
from minislurm.domain.states import NodeState
from minislurm.domain.views import NodeView, PartitionView
from tests.view_builders import (
    NOW,
    RecordedController,
    a_node_view,
    at,
    recorded_nodes,
    recorded_partitions,
)

HEADER = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
DEFAULT = (
    HEADER
    + """\
batch*       up 1-00:00:00      2    mix n[1-2]
batch*       up 1-00:00:00      6   idle n[3-8]
urgent       up 1-00:00:00      2    mix n[1-2]
urgent       up 1-00:00:00      6   idle n[3-8]
small        up    1:00:00      2    mix n[1-2]
"""
)
SUMMARY = """\
PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST
batch*       up 1-00:00:00          2/6/0/8 n[1-8]
urgent       up 1-00:00:00          2/6/0/8 n[1-8]
small        up    1:00:00          2/0/0/2 n[1-2]
"""
BY_NODE_LONG = """\
Sat Nov 21 08:39:08 2026
NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              
n1             1    batch*       mixed 16     1:16:1  64000        0      1   (null) none                
n1             1    urgent       mixed 16     1:16:1  64000        0      1   (null) none                
n1             1     small       mixed 16     1:16:1  64000        0      1   (null) none                
n3             1    batch*        idle 16     1:16:1  64000        0      1   (null) none                
n3             1    urgent        idle 16     1:16:1  64000        0      1   (null) none                
"""
BY_NODE = """\
NODELIST   NODES PARTITION STATE 
n3             1    batch* idle  
n3             1    urgent idle  
"""
LONG = """\
Sat Nov 21 08:39:08 2026
PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE NODELIST
batch*       up 1-00:00:00 1-infinite   no       NO        all      2       mixed n[1-2]
batch*       up 1-00:00:00 1-infinite   no       NO        all      6        idle n[3-8]
small        up    1:00:00        1-2   no       NO        all      2       mixed n[1-2]
"""
REASONS = """\
REASON               USER      TIMESTAMP           NODELIST
lost                 root      2026-11-21T08:39:00 n4
bad disk             root      2026-11-21T08:39:00 n2
"""
LONG_REASONS = """\
Sat Nov 21 08:39:08 2026
REASON               USER         TIMESTAMP           STATE  NODELIST
lost                 root(0)      2026-11-21T08:39:00 down*  n4
bad disk             root(0)      2026-11-21T08:39:00 drng   n2
"""


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> RecordedController:
    for name in [name for name in os.environ if name.startswith("SINFO_")]:
        monkeypatch.delenv(name)
    recorded = RecordedController()
    monkeypatch.setattr(connection, "connect", lambda: recorded)
    monkeypatch.setattr(time, "time", lambda: NOW)
    return recorded


def _sinfo(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str, int]:
    exit_code = sinfo.APPLICATION.main(words)
    captured = capsys.readouterr()
    return captured.out, captured.err, exit_code


def _rows(
    text: str,
    *words: str,
    nodes: list[NodeView] | None = None,
    partitions: list[PartitionView] | None = None,
) -> list[str]:
    values = sinfo.Values()
    sinfo.APPLICATION.apply(values, sinfo.APPLICATION.parse(["-h", "-o", text, *words]).occurrences)
    return sinfo.node_lines(
        values,
        recorded_partitions() if partitions is None else partitions,
        recorded_nodes() if nodes is None else nodes,
    )


def _with_trouble() -> list[NodeView]:
    """n2 drains while it works, n3 is drained, n4 is lost."""
    nodes = recorded_nodes()
    draining = replace(nodes[1].node, reason="bad disk", reason_time=at("08:39:00"), drained=True)
    nodes[1] = replace(nodes[1], state="MIXED+DRAIN", node=draining)
    nodes[2] = a_node_view("n3", state="IDLE+DRAIN", drained=True)
    nodes[3] = a_node_view("n4", state="DOWN*", reason="lost", reason_time=at("08:39:00"), responding=False)
    return nodes


def test_listings(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    assert _sinfo(capsys) == (DEFAULT, "", 0)
    assert _sinfo(capsys, "-a", "-h")[0] == DEFAULT.removeprefix(HEADER)
    assert _sinfo(capsys, "-s") == (SUMMARY, "", 0)
    assert _sinfo(capsys, "-N", "-l", "-n", "n1,n3")[0] == BY_NODE_LONG
    assert _sinfo(capsys, "-N", "-n", "n3")[0] == BY_NODE
    assert _sinfo(capsys, "-l", "-p", "batch,small")[0] == LONG
    assert _sinfo(capsys, "-R") == (REASONS.splitlines(keepends=True)[0], "", 0)


def test_reasons(controller: RecordedController, capsys: pytest.CaptureFixture[str]) -> None:
    controller.nodes = [node for node in _with_trouble() if node.node.name != "n3"]
    assert _sinfo(capsys, "-R")[0] == REASONS
    assert _sinfo(capsys, "-R", "-l")[0] == LONG_REASONS


def test_sick_nodes_come_first_and_count_as_other() -> None:
    assert _rows("%R %t %T %D %N", "-p", "batch", nodes=_with_trouble()) == [
        "batch down* down* 1 n4",
        "batch drng draining 1 n2",
        "batch drain drained 1 n3",
        "batch mix mixed 1 n1",
        "batch idle idle 4 n[5-8]",
    ]
    assert _rows("%F %C", "-p", "batch", nodes=_with_trouble()) == ["2/4/2/8 8/74/46/128"]


@pytest.mark.parametrize(
    ("states", "nodes"),
    [
        ("idle", "n[3,5-8]"),  # drained ones too, as Slurm has it
        ("alloc", "n[1-2]"),
        ("MIX", "n[1-2]"),
        ("drain", "n[2-3]"),
        ("drained", "n3"),
        ("draining", "n2"),
        ("down,drng", "n[2,4]"),
        ("idle&drain", "n3"),
        ("no_respond", "n4"),
        ("maint", ""),
        ("all", "n[1-8]"),
    ],
)
def test_states(states: str, nodes: str) -> None:
    assert _rows("%R %N", "-p", "batch", "-t", states, nodes=_with_trouble()) == [f"batch {nodes}"]


def test_responding_and_dead() -> None:
    assert _rows("%N", "-d", nodes=_with_trouble()) == ["n4"]
    assert _rows("%N", "-r", nodes=_with_trouble()) == ["n[1-3,5-8]"]


def test_a_partition_without_such_nodes_is_still_shown(
    controller: RecordedController, capsys: pytest.CaptureFixture[str]
) -> None:
    row = "small        up    1:00:00      0    n/a \n"
    assert _sinfo(capsys, "-h", "-t", "idle", "-p", "small")[0] == row
    assert _sinfo(capsys, "-p", "nosuch") == (HEADER, "", 0)
    assert _sinfo(capsys, "-N", "-h", "-t", "idle", "-p", "small")[0] == ""


def test_rows_follow_from_what_is_shown() -> None:
    assert _rows("%a") == ["up"]
    assert _rows("%l") == ["1-00:00:00", "1:00:00"]
    # A node counts once, though it is in three partitions.
    assert _rows("%D %C") == ["8 8/120/0/128"]
    assert _rows("%R %p") == ["batch 1", "urgent 10", "small 1"]


def test_nodes_that_differ_share_a_row_unless_exact() -> None:
    nodes = recorded_nodes()
    bigger = replace(nodes[7].node.spec, cpus=32, memory_mib=128_000, weight=5)
    nodes[7] = replace(nodes[7], node=replace(nodes[7].node, spec=bigger, cpu_load=0.5, free_memory_mib=1000))
    assert _rows("%t %c %m %w %O %e", "-p", "batch", nodes=nodes) == [
        "mix 16 64000 1 3.35 22264",
        "idle 16+ 64000+ 1+ 0.50-3.35 1000-22264",
    ]
    exact = _rows("%t %c %N", "-e", "-p", "batch", "-t", "idle", nodes=nodes)
    assert exact == ["idle 16 n[3-7]", "idle 32 n8"]


def test_gpus() -> None:
    assert _rows("%G", "-p", "batch") == ["gpu:8"]
    assert _rows("%G", "-p", "batch", nodes=[a_node_view("n1", gpus=0)]) == ["(null)"]
    values = sinfo.Values(no_header=True, long_format="nodelist:|,gresused:|,allocmem:")
    lines = sinfo.node_lines(values, recorded_partitions()[:1], recorded_nodes())
    assert lines == ["n[1-2]|gpu:2(IDX:0-1)|0", "n[3-8]|gpu:0(IDX:N/A)|0"]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("%n|%o|%v|%z|%X|%Y|%Z|%d", "login1|127.0.0.1|22.05.8|1:16:1|1|16|1|0"),
        ("%g|%h|%r|%s|%S|%M|%B|%I|%L|%V", "all|NO|no|1-infinite|all|OFF|UNLIMITED|1|30:00|N/A"),
        ("%E|%u|%U|%H|%f|%b", "none|Unknown|Unknown|Unknown|(null)|(null)"),
        ("%P|%R|%a|%A", "batch*|batch|up|2/6"),
    ],
)
def test_letters(text: str, row: str) -> None:
    assert _rows(text, "-p", "batch") == [row]


def test_a_node_never_seen_has_no_load() -> None:
    view = a_node_view("n1", state="UNKNOWN*", responding=False)
    view.node.facts = type(view.node.facts)()
    view.node.state = NodeState.UNKNOWN
    assert _rows("%t %O %e %n %v", "-p", "batch", nodes=[view]) == ["unk* N/A N/A n1 (null)"]


def test_completing_nodes() -> None:
    nodes = [
        replace(a_node_view("n1", state="COMPLETING"), completing=True),
        replace(a_node_view("n2", state="ALLOCATED", cpus_used=bitmap_of(range(16))), completing=True),
        a_node_view("n3", state="ALLOCATED", cpus_used=bitmap_of(range(16))),
    ]
    assert sorted(_rows("%N %t %T", "-p", "batch", nodes=nodes)) == [
        "n1 comp completing",
        "n2 alloc+ allocated+",
        "n3 alloc allocated",
    ]


def test_columns_grow_with_long_names(
    controller: RecordedController, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long_named = PartitionView("interactive", (NodeName("n1"),), default=True)
    monkeypatch.setattr(controller, "list_partitions", lambda: [long_named])
    assert _sinfo(capsys)[0] == (
        "PARTITION    AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
        "interactive*    up   infinite      1    mix n1\n"
    )


def test_order() -> None:
    assert _rows("%R", "-S", "P") == ["batch", "small", "urgent"]
    assert _rows("%R", "-S", "-P") == ["urgent", "small", "batch"]
    assert _rows("%R", "-S", "-#P") == ["small", "urgent", "batch"]
    assert _rows("%t", "-S", "t", "-p", "batch") == ["idle", "mix"]


@pytest.mark.parametrize(
    ("words", "error", "exit_code"),
    [
        (["-t", "bogus"], 'sinfo: error: Bad state string: "bogus"\n', 1),
        (["-S", "!"], "sinfo: error: Invalid sort specification: !\n", 1),
        (["--yaml"], "sinfo: error: --yaml is not supported by minislurm\n", 1),
        (["foo"], "sinfo: error: Unrecognized option: foo\n", 1),
        (["-o", "%i", "-n", "n1"], "sinfo: error: Invalid node format specification: i\n", 0),
    ],
)
def test_errors(
    controller: RecordedController,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    error: str,
    exit_code: int,
) -> None:
    _, err, code = _sinfo(capsys, *words)
    assert (err.splitlines(keepends=True)[0], code) == (error, exit_code)


def test_environment(
    controller: RecordedController, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINFO_FORMAT", "%R")
    monkeypatch.setenv("SINFO_PARTITION", "small")
    assert _sinfo(capsys, "-h")[0] == "small\n"
    assert _sinfo(capsys, "-h", "-p", "batch")[0] == "batch\n"
