"""The links between a node's GPUs, in NVIDIA's words (`nvidia-smi topo -m`).

A matrix has a row of words for each GPU: NV# (that many NVLinks), PIX (one PCIe switch), PXB (several), PHB
(through the host bridge), NODE (one NUMA domain), SYS (between NUMA domains). In its own place a GPU has its
NUMA domain, "N0", or "X" where that is not known.
"""

from __future__ import annotations

import re
from functools import lru_cache

_CLASSES = {"SYS": 0, "NODE": 1, "PHB": 2, "PXB": 3, "PIX": 4}
_NVLINK = re.compile(r"NV([0-9]{1,2})\Z")
_NUMA = re.compile(r"(X|N[0-9]{1,3})\Z")


def link_class(word: str) -> int:
    """Higher is closer; NVLinks are above all others. Raises ValueError for a word that is no link."""
    if word in _CLASSES:
        return _CLASSES[word]
    match = _NVLINK.match(word)
    if match is None:
        raise ValueError(f'"{word}": must be NV and a number, PIX, PXB, PHB, NODE or SYS')
    return len(_CLASSES) + int(match[1])


@lru_cache(maxsize=256)
def link_problem(links: tuple[str, ...], gpus: int) -> str:
    """What is wrong with a matrix for so many GPUs (0: a number that is not known); "" for nothing."""
    rows = [row.split() for row in links]
    if links and gpus and len(rows) != gpus:
        return f"must have a row for each of the {gpus} GPUs"
    for i, row in enumerate(rows):
        if len(row) != len(rows):
            return f"row {i + 1} must have {len(rows)} words"
        if not _NUMA.match(row[i]):
            return f'row {i + 1}: "{row[i]}" must be the GPU\'s NUMA domain, such as N0, or X'
        for j, word in enumerate(row):
            try:
                if i != j and link_class(word) != link_class(rows[j][i] if i < len(rows[j]) else ""):
                    return f"GPUs {i} and {j} have two different links, {word} and {rows[j][i]}"
            except ValueError as error:
                return f"row {i + 1}: {error}"
    return ""
