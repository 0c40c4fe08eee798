"""Checkpoints of a PyTorch training. Skipped where PyTorch is not installed; `scripts/bench/run training`
shows the same under real preemptions."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from minislurm.checkpoint.pytorch import Checkpoints, StepBatches  # noqa: E402
from minislurm.checkpoint.reports import _Last  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
LAST = 20


@pytest.fixture(autouse=True)
def _a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Last, "step", -1)


def train(folder: Path, stop: int = LAST, **often: int) -> tuple[int, str]:
    """Goes on from what is in the folder: (first step, the weights in the end)."""
    torch.manual_seed(1)
    random.seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    saved = Checkpoints(folder, model=model, optimizer=optimizer, **often)
    first = step = saved.restore()
    samples = torch.arange(400.0).reshape(100, 4) / 100
    for batch in StepBatches(len(samples), 8, first_step=step):
        loss = (model(samples[batch]) * random.random() - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        saved.after(step)
        if step >= stop:
            break
    return first, repr([parameter.tolist() for parameter in model.parameters()])


def test_a_training_goes_on_bit_for_bit(tmp_path: Path) -> None:
    _, undisturbed = train(tmp_path / "none")
    assert train(tmp_path / "some", stop=9, steps=3)[0] == 0
    first, weights = train(tmp_path / "some")
    assert first == 9
    assert weights == undisturbed


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, undisturbed = train(tmp_path / "none")
    train(tmp_path / "some", stop=9, steps=3)
    whole = (tmp_path / "some" / "step9.pt").read_bytes()
    (tmp_path / "some" / "step9.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "some" / ".step12.pt.tmp").write_bytes(whole)
    assert train(tmp_path / "some") == (6, undisturbed)
    assert "step9.pt cannot be read" in caplog.text


def test_a_full_folder_does_not_end_the_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    first, _ = train(tmp_path / "file", steps=3)
    assert first == 0
    assert "no checkpoint of step 3" in caplog.text


def test_batches_follow_from_the_step() -> None:
    every = iter(StepBatches(10, 3))
    batches = [next(every) for _ in range(7)]
    one, other = ({*chain(*batches[i : i + 3])} for i in (0, 3))
    assert one != other  # another one is left out
    assert len(one) == len(other) == 9
    for step in range(7):
        assert next(iter(StepBatches(10, 3, first_step=step))) == batches[step]
    with pytest.raises(ValueError, match="not enough"):
        StepBatches(2, 3)


_RANK = """
import sys, torch, torch.distributed as dist
from minislurm.checkpoint.pytorch import Checkpoints, StepBatches
rank, folder, store, stop = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(rank)
layer = torch.nn.Linear(1, 1)
saved = Checkpoints(folder, steps=3, layer=layer)
step = saved.restore()
numbers = []
for batch in StepBatches(12, 2, first_step=step):
    if step == stop:
        break
    numbers.append((torch.rand(1).item(), batch))
    step += 1
    saved.after(step)
print(step, numbers)
dist.destroy_process_group()
"""


def gang(folder: Path, stop: int) -> list[str]:
    """What each of two ranks says."""
    words = [sys.executable, "-c", _RANK]
    store = folder.with_suffix(f".store{stop}")
    environment = {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "PATH": "/usr/bin:/bin"}
    ranks = [
        subprocess.Popen(
            [*words, str(rank), str(folder), str(store), str(stop)],
            stdout=subprocess.PIPE, text=True, env=environment,
        )
        for rank in range(2)
    ]  # fmt: skip
    return [rank.communicate(timeout=90)[0] for rank in ranks]


def test_every_rank_goes_on_with_its_own_random_numbers(tmp_path: Path) -> None:
    whole = gang(tmp_path / "whole", 6)
    gang(tmp_path / "parts", 3)
    rest = gang(tmp_path / "parts", 6)
    for rank in range(2):
        numbers = eval(whole[rank].split(" ", 1)[1])
        assert eval(rest[rank].split(" ", 1)[1]) == numbers[3:]
    assert whole[0] != whole[1]
