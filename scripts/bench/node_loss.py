#!/usr/bin/env python3
"""Measures what the loss of a node costs a gang of 8 that holds one spare: real daemons on loopback.

A host dies: its daemon and all that it started are killed at once. The rest follows from the daemons' own
timers (node_grace_s as it is by default; node_timeout_s shortened, which is before the loss is declared).
Measured is the time from the controller's declaring the node DOWN until all 8 ranks of the step compute
again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import psutil  # noqa: E402
from minislurm_cluster import _environment, _programs  # noqa: E402
from system import await_true  # noqa: E402

from minislurm.cli.local_cluster import LocalCluster  # noqa: E402
from minislurm.domain.configuration import Configuration  # noqa: E402
from minislurm.domain.ids import JobId  # noqa: E402
from minislurm.domain.states import NodeState  # noqa: E402
from minislurm.domain.views import JobQuery, JobView  # noqa: E402
from minislurm.rpc.client import ControllerClient  # noqa: E402

RANKS = 8
TARGET_S = 5.0
_SETTINGS = ("timers.heartbeat_interval_s=0.5", "timers.node_suspect_s=1.2", "timers.node_timeout_s=3.0")
#: A rank says when it computes; it takes a SIGKILL to end it, as ranks that hang in a collective do.
_SCRIPT = """#!/bin/bash
srun bash -c 'trap "" TERM
echo ${SLURM_RESTART_COUNT:-0} $SLURM_PROCID $(date +%s.%N) >> FOLDER/ranks
sleep 3600'
"""


def main() -> int:
    arguments = _arguments()
    runs = [_measure(lost) for lost in (["n1", "n5"] * arguments.repeat)[: arguments.repeat]]
    figures = {
        "loss declared to all ranks computing again": statistics.median(run[0] for run in runs),
        "worst of these": max(run[0] for run in runs),
        "host's death to loss declared": statistics.median(run[1] for run in runs),
    }
    for what, value in figures.items():
        print(f"{what:45} {value:6.2f} s")
    met = figures["worst of these"] <= TARGET_S
    print(f"to reach: {TARGET_S:g} s, {'met' if met else 'MISSED'} ({len(runs)} runs)")
    if arguments.json:
        Path(arguments.json).write_text(
            json.dumps({"figures": figures, "target_s": TARGET_S}, indent=1) + "\n"
        )
    return 0 if met or not arguments.strict else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench/run node-loss", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--repeat", type=int, default=4, help="times; the first rank's host and another in turn"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--strict", action="store_true", help="exit 1 if the target is missed")
    return parser.parse_args()


def _measure(lost: str) -> tuple[float, float]:
    folder = Path(tempfile.mkdtemp(prefix="minislurm-loss-"))
    local = LocalCluster(folder / "cluster")
    environment = _environment(folder)
    programs = _programs(folder / "bin")
    environment["PATH"] = f"{programs}:{environment['PATH']}"

    def minislurm(*words: str) -> str:
        return _run([str(programs / words[0]), *words[1:]], environment)

    try:
        settings = [word for value in _SETTINGS for word in ("--set", value)]
        shape = ("--nodes", str(RANKS + 1), "--cpus", "2", "--gpus", "0", "--memory", "8G")
        minislurm("minislurm", "up", "--state-dir", str(folder / "cluster"), *shape, *settings)
        environment["MINISLURM_CONF"] = str(local.configuration_path)
        configuration = local.configuration()
        script = folder / "gang.sh"
        script.write_text(_SCRIPT.replace("FOLDER", str(folder)))
        words = ("-N", str(RANKS), "--exclusive", "--spare-nodes=1", "-o", "/dev/null", "--parsable")
        job_id = JobId(int(minislurm("sbatch", *words, str(script))))
        await_true(lambda: len(_ranks(folder, "0")) == RANKS, 60, "the gang's first run")
        with ControllerClient(configuration) as client:
            return _lose(client, local, configuration, lost, job_id, folder)
    finally:
        minislurm("minislurm", "down", "--state-dir", str(folder / "cluster"))
        shutil.rmtree(folder, ignore_errors=True)


def _lose(
    client: ControllerClient,
    local: LocalCluster,
    configuration: Configuration,
    lost: str,
    job_id: JobId,
    folder: Path,
) -> tuple[float, float]:
    """(declared to computing, death to declared)"""
    pid = local.daemon(configuration, lost).pid()
    assert pid is not None
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    died = time.time()
    for process in family:
        process.suspend()  # so that none sees another one's end
    for process in family:
        process.kill()

    def is_down() -> bool:
        return any(v.node.name == lost and v.node.state is NodeState.DOWN for v in client.list_nodes())

    await_true(is_down, 60, "the loss to be declared", 0.01)
    declared = next(v.node.reason_time for v in client.list_nodes() if v.node.name == lost)
    await_true(lambda: len(_ranks(folder, "1")) == RANKS, 60, "the gang's second run")
    view = _job(client, job_id)
    assert view.job.run == 2, f"run {view.job.run}"
    assert lost not in [part.node for part in view.job.allocation]
    return max(_ranks(folder, "1").values()) - declared, declared - died


def _job(client: ControllerClient, job_id: JobId) -> JobView:
    return next(iter(client.list_jobs(JobQuery((job_id,)))))


def _ranks(folder: Path, restart: str) -> dict[str, float]:
    """When each rank of that run began to compute."""
    path = folder / "ranks"
    lines = path.read_text().splitlines() if path.exists() else []
    found: dict[str, float] = {}
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[0] == restart:
            found[words[1]] = float(words[2])
    return found


def _run(words: list[str], environment: dict[str, str]) -> str:
    import subprocess

    done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
