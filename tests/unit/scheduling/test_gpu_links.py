"""Which GPUs of a node a run gets."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain.gpu_links import link_class, link_problem
from minislurm.domain.ids import Bitmap, bitmap_of, indexes_of
from minislurm.scheduling.cycle import schedule
from minislurm.scheduling.gpu_links import closest
from tests.builders import a_request
from tests.unit.scheduling.builders import a_class, a_node, a_partition, a_snapshot

#: Two NUMA domains of four; NVLink in pairs 0-2 and 1-3, and in a ring of four in the other domain.
MATRIX = (
    "N0 PIX NV4 PHB SYS SYS SYS SYS",
    "PIX N0 PHB NV4 SYS SYS SYS SYS",
    "NV4 PHB N0 PIX SYS SYS SYS SYS",
    "PHB NV4 PIX N0 SYS SYS SYS SYS",
    "SYS SYS SYS SYS N1 NV2 PHB NV2",
    "SYS SYS SYS SYS NV2 N1 NV2 PHB",
    "SYS SYS SYS SYS PHB NV2 N1 NV2",
    "SYS SYS SYS SYS NV2 PHB NV2 N1",
)


def chosen(free: tuple[int, ...], count: int) -> tuple[int, ...]:
    return indexes_of(closest(MATRIX, bitmap_of(free), count))


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        (range(8), 2, (0, 2)),  # the widest link of all
        ((0, 1, 4, 5), 2, (4, 5)),  # NVLink before a PCIe switch
        ((0, 1, 3, 4), 2, (1, 3)),
        ((0, 3, 4, 6), 2, (0, 3)),
        ((0, 1, 2, 3, 4, 5, 6), 3, (4, 5, 6)),  # one domain, the best worst link being equal: most links
        ((0, 4, 5, 6, 7), 3, (4, 5, 6)),
        ((0, 1, 4, 5), 3, (0, 4, 5)),  # no domain has three
        (range(8), 4, (4, 5, 6, 7)),
        ((1, 6), 2, (1, 6)),
    ],
)
def test_the_closest_are_taken(free: tuple[int, ...], count: int, expected: tuple[int, ...]) -> None:
    assert chosen(tuple(free), count) == expected


def test_a_single_gpu_is_taken_where_it_breaks_least() -> None:
    assert chosen((0, 2, 4), 1) == (4,)
    assert chosen((0, 1, 3, 5, 6), 1) == (0,)


def test_of_many_gpus_the_set_grows() -> None:
    size = 24
    rows = tuple(
        " ".join(f"N{i // 12}" if i == j else "NV2" if i // 6 == j // 6 else "SYS" for j in range(size))
        for i in range(size)
    )
    assert indexes_of(closest(rows, (1 << size) - 1, 6)) == (0, 1, 2, 3, 4, 5)
    assert closest(rows, (1 << size) - 1, 13).bit_count() == 13


@given(st.integers(1, 255), st.data())
def test_no_other_set_has_fewer_domains_or_a_better_worst_link(free: int, data: st.DataObject) -> None:
    members = indexes_of(free)
    count = data.draw(st.integers(1, len(members)))
    rows = [row.split() for row in MATRIX]

    def quality(some: tuple[int, ...]) -> tuple[int, int, int]:
        links = [link_class(rows[i][j]) for i, j in combinations(some, 2)]
        return -len({rows[i][i] for i in some}), min(links, default=0), sum(links)

    taken = chosen(members, count)
    assert len(taken) == count
    assert set(taken) <= set(members)
    assert quality(taken) == max(quality(some) for some in combinations(members, count))


def test_a_placement_uses_the_links() -> None:
    node = a_node("n1", cpus=8, gpus=8, gpu_links=MATRIX, gpus_free=Bitmap(0b00110011))
    batch = a_partition([node])
    plan = schedule(a_snapshot([node], a_class(batch, 1, request=a_request(gpus_per_node=2))))
    assert indexes_of(plan.placements[0].allocation[0].gpus) == (4, 5)


def test_what_is_wrong_with_a_matrix_is_said() -> None:
    assert link_problem(MATRIX, 8) == ""
    assert link_problem((), 8) == ""
    assert "a row for each of the 4 GPUs" in link_problem(MATRIX, 4)
    assert "2 words" in link_problem(("X NV1", "NV1"), 0)
    assert "NUMA domain" in link_problem(("NV1 NV1", "NV1 X"), 0)
    assert "must be NV and a number" in link_problem(("X FAR", "NV1 X"), 0)
    assert "two different links" in link_problem(("X NV1", "NV2 X"), 0)
