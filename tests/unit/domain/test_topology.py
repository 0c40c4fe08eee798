from __future__ import annotations

import pytest

from minislurm.domain.configuration import DomainSpec
from minislurm.domain.ids import NodeName
from minislurm.domain.topology import Topology, parse_labels


def reported(**paths: str) -> Topology:
    return Topology.of((), {NodeName(name): text for name, text in paths.items()})


def test_reported_paths_make_the_tree() -> None:
    topology = reported(
        n1="zone=z/block=b1/rack=r1", n2="zone=z/block=b1/rack=r2", n3="zone=z/block=b2/rack=r3"
    )
    assert topology.path(NodeName("n2")) == ("z", "b1", "r2")
    assert topology.address(NodeName("n3")) == ("z.b2.r3.n3", "switch.switch.switch.node")
    assert topology.levels == ("zone", "block", "rack")
    assert topology.domain_at(NodeName("n1"), "block") == "b1"
    assert topology.domain_at(NodeName("n1"), "row") == ""


def test_racks_of_one_name_in_different_blocks_are_different() -> None:
    topology = reported(n1="block=b1/rack=r1", n2="block=b2/rack=r1", n3="block=b1/rack=r1")
    assert topology.leaf_of_node == {"n1": "b1-r1", "n2": "b2-r1", "n3": "b1-r1"}


def test_a_block_and_a_rack_of_one_name() -> None:
    topology = reported(n1="block=x/rack=x", n2="block=x/rack=y")
    assert topology.path(NodeName("n1")) == ("x", "x-x")
    assert topology.path(NodeName("n2")) == ("x", "y")


def test_the_configuration_comes_first_and_is_joined() -> None:
    specs = (
        DomainSpec("r1", "rack", "z", (NodeName("n1"),)),
        DomainSpec("z", "zone"),
    )
    said = {NodeName("n1"): "zone=other/rack=r9", NodeName("n2"): "zone=z/rack=r1", NodeName("n3"): "rack=r1"}
    topology = Topology.of(specs, said)
    assert topology.path(NodeName("n1")) == ("z", "r1")
    assert topology.path(NodeName("n2")) == ("z", "r1")
    assert topology.path(NodeName("n3")) == ("rack-r1",)


def test_the_order_of_reports_does_not_matter() -> None:
    paths = {"n1": "block=b1/rack=r1", "n2": "block=b2/rack=r1", "n3": "rack=r1"}
    assert reported(**paths) == reported(**dict(reversed(paths.items())))


def test_what_cannot_be_read_puts_a_node_nowhere() -> None:
    assert reported(n1="rack 7").path(NodeName("n1")) == ()


@pytest.mark.parametrize("text", ["rack", "rack=", "=r1", "rack=r 1", "zone=a/rack", "rack=a=b"])
def test_malformed_labels_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="level=name"):
        parse_labels(text)


def test_labels() -> None:
    assert parse_labels(" zone=a/rack=r-7.2 \n") == (("zone", "a"), ("rack", "r-7.2"))
    assert parse_labels("") == ()
