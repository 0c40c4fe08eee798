"""Checkpoints of a training with PyTorch, alone or with torch.distributed: a stopped run goes on as if it had
never been stopped, bit for bit, as long as it has as many ranks.

    saved = Checkpoints(steps=500, model=model, optimizer=optimizer)
    step = saved.restore()
    batches = DataLoader(data, batch_sampler=StepBatches(len(data), 32, first_step=step))
    for batch in batches:
        train(batch)
        step += 1
        if saved.after(step) or step == LAST:
            break

Rank 0 decides when to save and when to stop, so that all ranks do it after the same step; it alone writes.
PyTorch is needed for this module and for nothing else of the package.
"""

from __future__ import annotations

import logging
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from minislurm.checkpoint.notices import should_stop
from minislurm.checkpoint.reports import latest, report
from minislurm.checkpoint.saving import save_every

_LOG = logging.getLogger("minislurm.checkpoint")
_NAME = re.compile(r"step(\d+)\.pt")
_GO_ON, _SAVE, _STOP = 0, 1, 2
#: After one that could not be written, no other is tried for so long, unless the run has to stop.
_PAUSE_S = 30.0


class Part(Protocol):
    """Whatever has a state: a model, an optimizer, a schedule, a scaler."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> Any: ...


class Checkpoints:
    """Saves and restores the parts, the step and every rank's random numbers.

    `folder`: the same for all ranks; by default the job's (``--checkpoint-dir``). `steps`, `seconds`: how
    often, besides when one is asked for; by default the job's ``--checkpoint-interval``.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        **parts: Part,
    ) -> None:
        self._folder = Path(folder or os.environ.get("MINISLURM_CHECKPOINT_DIR", "checkpoints"))
        self._saver = save_every(seconds=seconds, steps=steps)
        self._parts = parts
        self._failed_time = -inf
        self._is_gang = dist.is_available() and dist.is_initialized()
        self._rank = dist.get_rank() if self._is_gang else 0
        # What the ranks tell each other here are a few bytes in main memory, also where they train over NCCL.
        self._group = dist.new_group(backend="gloo") if self._is_gang else None

    def restore(self) -> int:
        """The step to go on from, 0 without a checkpoint. Called once, by all ranks."""
        step, path = self._agreed(self._newest() if self._rank == 0 else (0, ""))
        if path:
            self._load(_read(path))
        return step

    def after(self, step: int) -> bool:
        """So many steps are done: saves where it is time to. True: the run is to end now, and goes on later.
        Called by all ranks, after each step."""
        what = _GO_ON
        if self._rank == 0:
            is_due = self._saver.due(step) and time.monotonic() - self._failed_time > _PAUSE_S
            what = _STOP if should_stop() else _SAVE if is_due else _GO_ON
        what = self._agreed(what)
        if what != _GO_ON:
            self.save(step)
        return what == _STOP

    def save(self, step: int) -> bool:
        """Now, whatever is due. Called by all ranks. False, and why is logged: it was not written (a full
        file system, say); the last one is still there, and training may go on."""
        numbers = self._gathered(_random_state())
        if self._rank:
            return True
        state = {"step": step, "random": numbers}
        state["parts"] = {name: part.state_dict() for name, part in self._parts.items()}
        path = self._folder / f"step{step}.pt"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _write(state, path)
        except (OSError, RuntimeError) as error:  # torch.save raises either
            _LOG.error("no checkpoint of step %d: %s", step, error)
            self._failed_time = time.monotonic()
            return False
        return report(path, step=step)

    # Restoring

    def _newest(self) -> tuple[int, str]:
        """The newest that can be read: one that was whole when it was reported may be damaged by now."""
        for path in self._candidates():
            try:
                return int(_read(path)["step"]), path
            except Exception as error:  # damaged files raise almost anything
                _LOG.warning("%s cannot be read, an older checkpoint is tried: %s", path, error)
        return 0, ""

    def _candidates(self) -> Iterator[str]:
        found = latest()
        if found is not None:
            yield found.path
        mine = [path for path in self._folder.glob("step*.pt") if _NAME.fullmatch(path.name)]
        for path in sorted(mine, key=_step_of, reverse=True):
            if found is None or str(path.absolute()) != found.path:
                yield str(path.absolute())

    def _load(self, state: dict[str, Any]) -> None:
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        numbers = state["random"]
        if len(numbers) == (dist.get_world_size() if self._is_gang else 1):
            _set_random_state(numbers[self._rank])

    # Between ranks

    def _agreed(self, mine: Any) -> Any:
        """What rank 0 says."""
        if not self._is_gang:
            return mine
        said = [mine]
        dist.broadcast_object_list(said, src=0, group=self._group)
        return said[0]

    def _gathered(self, mine: Any) -> list[Any]:
        """What each rank says; on rank 0 alone."""
        if not self._is_gang:
            return [mine]
        said: list[Any] | None = [None] * dist.get_world_size() if self._rank == 0 else None
        dist.gather_object(mine, said, dst=0, group=self._group)
        return said or []


class StepBatches(Sampler[list[int]]):
    """This rank's batches of indices, shuffled anew in each epoch, without an end. They follow from the
    number of the step alone, so there is no state to be saved: `first_step` says where to go on."""

    def __init__(
        self, samples: int, batch_size: int, *, first_step: int = 0, seed: int = 0, shuffle: bool = True
    ) -> None:
        is_gang = dist.is_available() and dist.is_initialized()
        self._rank = dist.get_rank() if is_gang else 0
        self._ranks = dist.get_world_size() if is_gang else 1
        self._samples, self._batch_size = samples, batch_size
        #: Of each epoch: what is left over is left out.
        self.steps = samples // (batch_size * self._ranks)
        if not self.steps:
            raise ValueError(f"{samples} samples are not enough for a batch of {batch_size} on each rank")
        self.first_step = first_step
        self._seed, self._shuffle = seed, shuffle

    def __iter__(self) -> Iterator[list[int]]:
        epoch, step = divmod(self.first_step, self.steps)
        while True:
            order = self._order(epoch)
            for at in range(step, self.steps):
                start = (at * self._ranks + self._rank) * self._batch_size
                yield order[start : start + self._batch_size]
            epoch, step = epoch + 1, 0

    def _order(self, epoch: int) -> list[int]:
        if not self._shuffle:
            return list(range(self._samples))
        numbers = torch.Generator()
        numbers.manual_seed(self._seed + epoch)
        order: list[int] = torch.randperm(self._samples, generator=numbers).tolist()
        return order


def _step_of(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


def _read(path: str) -> dict[str, Any]:
    """Plain values and tensors, nothing that could run code. Raises whatever a damaged file leads to."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _write(state: dict[str, Any], path: Path) -> None:
    """Under another name, then renamed: whoever finds it, finds all of it."""
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        with open(unfinished, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _random_state() -> dict[str, Any]:
    """Of this process: Python's, PyTorch's on all its devices, NumPy's where it is in use."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (name, keys.tolist(), *rest)
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(tuple(state["numpy"]))
