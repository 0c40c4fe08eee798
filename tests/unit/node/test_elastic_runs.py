"""A node that is told that an elastic run has other nodes now."""

from __future__ import annotations

from pathlib import Path

from minislurm.domain.ids import BATCH_STEP, NodeName
from minislurm.domain.job import EndCause
from minislurm.domain.resources import NodeAllocation
from minislurm.node.messages import (
    BatchExited,
    End,
    EndStep,
    Exit,
    Forget,
    Phase,
    RunCleaned,
    RunFinished,
    SaveRun,
    SignalStep,
    StepClean,
    StepExited,
    TellNodes,
    WriteNodes,
)
from minislurm.node.run_files import RunFiles
from minislurm.node.wire import command
from minislurm.rpc.gen import node_pb2
from tests.unit.node.test_core import KEY, Node, a_prepare, running


def told(*names: str, signal: int = 0) -> TellNodes:
    return TellNodes(KEY, tuple([NodeAllocation(NodeName(name)) for name in names]), signal)


def test_the_script_is_told_once() -> None:
    node = running(elastic="in-place")
    assert node.hears(told("n1", "n2", signal=10)) == [
        WriteNodes(KEY),
        SignalStep(KEY, BATCH_STEP, 10, "leader"),
    ]
    assert node.hears(told("n1", "n2", signal=10)) == [], "the same once more"
    assert node.hears(told("n1", signal=0)) == [WriteNodes(KEY)]


def test_a_script_that_is_over_or_ending_hears_no_signal() -> None:
    node = running(elastic="in-place")
    node.hears(End(KEY, EndCause.CANCEL, 20.0, 30.0))
    assert node.hears(told("n1", "n2", signal=10)) == [WriteNodes(KEY)]
    assert Node().hears(told("n1")) == [], "nothing is known of the run"


def test_a_run_that_has_grown_is_not_ended_by_its_first_node_alone() -> None:
    """Others have a part of it now: the controller ends it there as well."""
    node = running(elastic="in-place")
    node.hears(told("n1", "n2"))
    assert node.hears(StepExited(KEY, BATCH_STEP, Exit(), clean=True)) == [BatchExited(KEY, Exit())]


def test_a_node_that_was_given_back_may_join_again() -> None:
    node = running(nodes=("n0", "n1"), start=False, elastic="in-place")
    assert node.admits() == ""
    (ending,) = node.hears(End(KEY, EndCause.RESIZE, 20.0, 5.0))
    assert isinstance(ending, EndStep)
    assert (ending.kill, ending.wait_s) == (False, 5.0)
    node.hears(StepExited(KEY, 0, Exit()), StepClean(KEY, 0))  # type: ignore[arg-type]
    assert node.hears(RunFinished(KEY)) == [SaveRun(KEY, Phase.CLEAN), RunCleaned(KEY, 10.0)]
    node.hears(Forget(KEY))
    assert node.hears(a_prepare(nodes=("n0", "n1"), start=False)) != []


def test_the_list_of_nodes_is_replaced_as_a_whole(tmp_path: Path) -> None:
    files = RunFiles(str(tmp_path))
    try:
        files.make(node_pb2.PrepareRun(job_id=7, run=1), KEY)
        for names in (("n1",), ("n1", "n2", "n3")):
            files.write_nodes(KEY, a_prepare(nodes=names).job)
            path = Path(files.nodes_path(KEY))
            assert path.read_text() == "".join(f"{name}\n" for name in names)
            assert path.stat().st_mode & 0o777 == 0o644
            assert not Path(f"{path}.new").exists()
        files.remove(KEY)
        assert not path.exists()
    finally:
        files.close()


def test_as_the_controller_says_it() -> None:
    message = node_pb2.Command()
    message.tell_nodes.job_id, message.tell_nodes.run, message.tell_nodes.signal = 7, 1, 10
    for name in ("n1", "n2"):
        message.tell_nodes.allocation.add(node=name)
    heard = command(message)
    assert isinstance(heard, TellNodes)
    assert (heard.key, heard.signal, [part.node for part in heard.allocation]) == (KEY, 10, ["n1", "n2"])
