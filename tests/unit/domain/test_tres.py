"""TRES in Slurm's notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.ids import Bitmap, NodeName
from minislurm.domain.node import Node
from minislurm.domain.resources import GpuGroup, NodeAllocation
from minislurm.domain.tres import add, as_dict, format_tres, parse_tres, parse_weights, tres_of_allocation
from tests.builders import a_node

NAMES = st.sampled_from(["cpu", "mem", "node", "gres/gpu", "gres/gpu:a100", "gres/gpu:H200"])


def test_amounts_by_name() -> None:
    assert parse_tres("cpu=10,mem=2G,gres/gpu:a100=4") == {"cpu": 10, "mem": 2048, "gres/gpu:a100": 4}
    assert parse_tres("CPU=1,GRES/gpu:A100=2") == {"cpu": 1, "gres/gpu:A100": 2}, "a type keeps its case"
    assert parse_tres("cpu=-1") == {"cpu": None}
    assert parse_tres("") == {}


@pytest.mark.parametrize(
    "text", ["cpu", "cpu=", "cpu=x", "cpu=1.5", "cpu=-2", "gpu=1", "gres/gpu:=1", "mem=1X"]
)
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_tres(text)


def test_in_slurms_order() -> None:
    amounts = {"gres/gpu:b": 1, "gres/gpu": 4, "node": 2, "mem": 102400, "cpu": 10}
    assert format_tres(amounts) == "cpu=10,mem=100G,node=2,gres/gpu=4,gres/gpu:b=1"


@given(st.dictionaries(NAMES, st.integers(1, 1000).map(lambda n: n * 1024)))
def test_written_and_read(amounts: dict[str, int]) -> None:
    assert parse_tres(format_tres(amounts)) == amounts


def test_what_comes_to_nothing_leaves() -> None:
    total = {"cpu": 3}
    add(total, {"cpu": 1, "gres/gpu": 2})
    add(total, {"cpu": 4, "gres/gpu": 2}, -1)
    assert total == {}


def test_weights_of_memory_are_for_a_megabyte() -> None:
    weights = parse_weights("cpu=1.5,mem=0.5G,gres/gpu=8")
    assert weights == {"cpu": 1.5, "mem": 0.5 / 1024, "gres/gpu": 8.0}
    for wrong in ("cpu=fast", "cpu=1G", "tape=1", "cpu"):
        with pytest.raises(ValueError, match=r"must be"):
            parse_weights(wrong)


def test_a_gpu_of_a_type_counts_twice() -> None:
    name = NodeName("n1")
    spec = a_node("n1", gpus=2, gpu_type="a100")
    mixed = Node(type(spec)(name, gpus=(GpuGroup(2, "a100"), GpuGroup(2)), gpus_declared=True))
    part = NodeAllocation(name, Bitmap(0b111), 500, Bitmap(0b0110))
    held = as_dict(tres_of_allocation([part], {name: mixed}))
    assert held == {"cpu": 3, "mem": 500, "node": 1, "gres/gpu": 2, "gres/gpu:a100": 1}
