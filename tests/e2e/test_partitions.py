"""Nodes that lose the controller: no run goes on while it is executed again elsewhere, and none ends for a
controller that is merely away."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.e2e.daemons import Daemons

pytestmark = pytest.mark.e2e

#: Stubborn: it takes a SIGKILL. A line for each moment in which it runs.
BEATS = "trap '' TERM; while :; do echo ${SLURM_RESTART_COUNT:-0} $(date +%s.%N) >> beats; sleep 0.02; done"
GRACE = "node_grace_s = 2.0"


def beats(daemons: Daemons) -> dict[int, list[float]]:
    """By restart: when the script was seen running."""
    found: dict[int, list[float]] = {}
    for line in daemons.read("beats").splitlines():
        words = line.split()
        if len(words) == 2:
            found.setdefault(int(words[0]), []).append(float(words[1]))
    return found


def never_twice_at_once(daemons: Daemons) -> None:
    seen = beats(daemons)
    for run in sorted(seen)[1:]:
        assert max(seen[run - 1]) < min(seen[run]), f"run {run} began while run {run - 1} went on"


def run_on(daemons: Daemons, node: str) -> int:
    """A job that prefers that node, and may run on any."""
    others = [name for name in daemons.names if name != node]
    for name in others:
        daemons.command("scontrol", "update", f"NodeName={name}", "State=DRAIN", "Reason=test")
    job = daemons.sbatch("-o", "/dev/null", "--wrap", BEATS)
    daemons.wait(lambda: beats(daemons).get(0), "the script runs")
    for name in others:
        daemons.command("scontrol", "update", f"NodeName={name}", "State=RESUME")
    return job


def state_of(daemons: Daemons, node: str) -> str:
    return next(view.state for view in daemons.nodes() if view.node.name == node)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_runs_of_a_daemon_that_is_gone_end_before_they_start_elsewhere(number: signal.Signals) -> None:
    with Daemons(nodes=2, cpus=4, node_timeout_s=2.5, timers=GRACE) as daemons:
        job = run_on(daemons, "n1")
        daemons.processes["n1"].send_signal(number)
        daemons.wait(lambda: state_of(daemons, "n1").startswith("DOWN"), "the node is down")
        assert daemons.state(job) == "COMPLETING", "its time to end is not over"
        daemons.wait(lambda: beats(daemons).get(1), "it runs again")
        assert [part.node for part in daemons.job(job).allocation] == ["n2"]
        never_twice_at_once(daemons)
        assert daemons.job(job).requeues == {"node_fail": 1}
        if number is signal.SIGSTOP:
            daemons.processes["n1"].send_signal(signal.SIGCONT)
        else:
            daemons.processes.pop("n1").wait(timeout=20)
            daemons.start("n1")
        daemons.wait(lambda: state_of(daemons, "n1") == "IDLE", "the node is back")
        assert not daemons.processes_with(f"MINISLURM_RUN={job}.1")
        assert daemons.job(job).run == 2, "nothing that it said of the old run touched the new one"


class Cable:
    """Between a node daemon and the controller. Pulled, nothing gets through and nobody is told."""

    def __init__(self, port: int) -> None:
        self.plugged = threading.Event()
        self.plugged.set()
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            self.plugged.wait()
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.plugged.wait()
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def start_behind(daemons: Daemons, node: str, cable: Cable) -> None:
    """The node's daemon anew, with the cable between it and the controller."""
    daemons.stop(node)
    path = Path(daemons.path)
    port = daemons.configuration.cluster.controller_port
    behind = path.with_name(f"{node}.toml")
    text = path.read_text().replace(f"controller_port = {port}", f"controller_port = {cable.port}")
    behind.write_text(text)
    daemons.path = behind
    try:
        daemons.start(node)
    finally:
        daemons.path = path
    daemons.wait(lambda: state_of(daemons, node) == "IDLE", "the node is back behind the cable")


def test_a_node_that_is_cut_off_ends_its_runs_before_they_start_elsewhere() -> None:
    with Daemons(nodes=2, cpus=4, node_timeout_s=2.5, timers=GRACE) as daemons:
        cable = Cable(daemons.configuration.cluster.controller_port)
        start_behind(daemons, "n1", cable)
        job = run_on(daemons, "n1")
        cable.plugged.clear()
        daemons.wait(lambda: beats(daemons).get(1), "it runs again")
        never_twice_at_once(daemons)
        assert not daemons.processes_with(f"MINISLURM_RUN={job}.1")
        assert "cut off from the controller" in (daemons.folder / "n1.log").read_text()
        cable.plugged.set()
        daemons.wait(lambda: state_of(daemons, "n1") == "IDLE", "the node is back")
        assert daemons.job(job).run == 2


def test_a_short_gap_harms_nothing() -> None:
    with Daemons(nodes=2, cpus=4, node_timeout_s=4.0, timers=GRACE) as daemons:
        cable = Cable(daemons.configuration.cluster.controller_port)
        start_behind(daemons, "n1", cable)
        job = run_on(daemons, "n1")
        cable.plugged.clear()
        daemons.wait(lambda: state_of(daemons, "n1").endswith("*"), "it is suspect")
        assert not state_of(daemons, "n1").startswith("DOWN")
        cable.plugged.set()
        daemons.wait(lambda: not state_of(daemons, "n1").endswith("*"), "it answers again")
        assert (daemons.state(job), daemons.job(job).run) == ("RUNNING", 1)


@pytest.mark.parametrize("nodes", [1, 3])
def test_runs_go_on_while_the_controller_is_away(nodes: int) -> None:
    """For several times as long as a node may be silent."""
    with Daemons(nodes=nodes, cpus=4, node_timeout_s=2.5, timers=GRACE) as daemons:
        job = run_on(daemons, "n1")
        daemons.kill("controller")
        gone = time.time()
        daemons.wait(lambda: max(beats(daemons)[0]) > gone + 8.0, "it goes on", 30)
        daemons.start("controller")
        daemons.wait(lambda: state_of(daemons, "n1") == "MIXED", "the node is back")
        assert (daemons.state(job), daemons.job(job).run) == ("RUNNING", 1)
        assert list(beats(daemons)) == [0]


def test_a_node_that_lost_controller_and_witnesses_ends_its_runs() -> None:
    """It cannot tell that from being cut off itself."""
    with Daemons(nodes=2, cpus=4, node_timeout_s=2.5, timers=GRACE) as daemons:
        job = run_on(daemons, "n1")
        os.kill(daemons.processes["controller"].pid, signal.SIGSTOP)
        os.kill(daemons.processes["n2"].pid, signal.SIGSTOP)
        daemons.wait(lambda: not daemons.processes_with(f"MINISLURM_RUN={job}.1"), "it ends", 20)
        for name in ("controller", "n2"):
            os.kill(daemons.processes[name].pid, signal.SIGCONT)
        daemons.wait(lambda: daemons.job(job).run == 2, "it runs again")
        never_twice_at_once(daemons)
        assert daemons.job(job).requeues == {"node_fail": 1}
