from __future__ import annotations

import pytest

from minislurm.domain.configuration import Configuration
from minislurm.domain.ids import NodeName
from minislurm.domain.node import NodeSpec
from minislurm.domain.resources import GpuGroup
from minislurm.sim import cluster_file, policy
from minislurm.sim import main as command
from minislurm.sim.trace import TraceJob
from tests.unit.sim.traces import public


def a_cluster(placement: str, nodes: int = 4, gpus: int = 4, cpus: int = 4000) -> Configuration:
    specs = [
        NodeSpec(
            NodeName(f"n{i}"), cpus=cpus, memory_mib=1000, gpus=(GpuGroup(gpus, "a100"),), gpus_declared=True
        )
        for i in range(nodes)
    ]
    return policy.with_placement(cluster_file.of_nodes(specs), placement)


def a_pod(name: str, gpus: int = 0, share: int = 0, cpus: int = 100, **changes: object) -> TraceJob:
    return TraceJob(name, 0.0, 0.0, nodes=1, gpus=gpus, gpu_share_milli=share, cpus=cpus, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("placement", ["binpack", "best-fit", "fgd"])
def test_pods_that_fill_gpus_exactly_fill_the_cluster(placement: str) -> None:
    from minislurm.sim.packing import fill

    pods = [a_pod(f"{i}", share=500) for i in range(8)] + [a_pod(f"whole{i}", gpus=1) for i in range(12)]
    filled = fill(a_cluster(placement), pods, seed=1, factor=1.0)
    assert (filled.at_end, filled.at_capacity, filled.dropped) == (1.0, 1.0, 0)


def test_what_does_not_fit_is_dropped_and_the_next_is_tried() -> None:
    from minislurm.sim.job_specs import SpecMaker
    from minislurm.sim.packing import Packer

    configuration = a_cluster("binpack", nodes=1)
    packer, specs = Packer(configuration), SpecMaker(configuration)
    offered = [
        a_pod("three", gpus=3),
        a_pod("two", gpus=2),
        a_pod("most", share=700),
        a_pod("half", share=500),
        a_pod("rest", share=300),
        a_pod("other type", share=100, gpu_type="h100"),
        a_pod("cpus", cpus=3700),
        a_pod("too many cpus", cpus=1),
    ]
    placed = [pod.name for pod in offered if packer.offer(specs.request(pod))]
    assert placed == ["three", "most", "rest", "cpus"]


def test_the_same_seed_fills_alike() -> None:
    from minislurm.sim.packing import fill

    pods = [a_pod(f"{i}", share=100 + 70 * (i % 9), gpus=0) for i in range(30)] + [a_pod("8", gpus=3)] * 3
    cluster = a_cluster("fgd")
    assert fill(cluster, pods, 3, 1.5) == fill(cluster, pods, 3, 1.5)
    assert len({fill(cluster, pods, seed, 1.5).at_end for seed in range(6)}) > 1


def test_typical_pods_cover_most_of_them() -> None:
    from minislurm.sim.packing import typical_of

    pods = [a_pod("a", share=500)] * 60 + [a_pod("b", gpus=1)] * 36 + [a_pod("c")] * 4
    typical = typical_of(pods)
    assert [(t.weight, t.gpus, t.milli) for t in typical] == [(0.6, 1, 500), (0.36, 1, 1000)]


def test_openb_is_filled_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    """A piece of it: until half of the GPUs are asked for everything fits."""
    nodes, pods = public("openb_node_list_gpu_node.csv"), public("openb_pod_list_default.csv.gz")
    arguments = ["--trace", str(pods), "--cluster", f"openb:{nodes}", "--placement", "fgd", "--fill", "1.3"]
    assert command.main(arguments) == 0
    assert capsys.readouterr().out.startswith("seed 0: 95.")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--cluster", "openb:x", "--policy", "easy"], "there is no time in it, so --policy means nothing"),
        (["--cluster", "flat:4"], "needs --cluster openb:NODES.csv"),
    ],
)
def test_a_fill_needs_openb_alone(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--fill", "1.3", "--trace", "x", *arguments]) == 1
    assert error in capsys.readouterr().err
