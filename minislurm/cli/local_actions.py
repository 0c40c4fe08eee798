"""Starting, watching and stopping the cluster on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from minislurm.cli.local_cluster import CONTROLLER, ClusterError, LocalCluster
from minislurm.cli.local_daemon import Daemon, end
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import AccessDenied, MinislurmError
from minislurm.domain.views import JobTarget, NodeView

if TYPE_CHECKING:
    from minislurm.rpc.client import ControllerClient

_LOG_LINES = 15


class Progress:
    """One line on standard error that is written over; without a terminal only what matters is written."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._open = False

    def show(self, text: str) -> None:
        """A state that the next one replaces."""
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._open = True

    def say(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False


def start_missing(cluster: LocalCluster, configuration: Configuration) -> list[Daemon]:
    """Starts what does not run; returns what was started. Raises ClusterError."""
    started = []
    for daemon in cluster.daemons(configuration):
        if daemon.pid() is None:
            try:
                daemon.start()
            except OSError as error:
                raise ClusterError(f"cannot start {daemon.name}: {error}") from error
            started.append(daemon)
    return started


def await_nodes(
    cluster: LocalCluster, configuration: Configuration, timeout_s: float, progress: Progress
) -> Sequence[NodeView]:
    """Waits until every node has registered. Raises ClusterError with the tails of the logs to blame."""
    deadline = time.monotonic() + timeout_s
    wanted = len(configuration.nodes)
    missing = [CONTROLLER]
    while True:
        views = _nodes(configuration)
        if views is not None:
            missing = [view.node.name for view in views if not view.node.responding]
            progress.show(f"{wanted - len(missing)} of {wanted} nodes are ready")
            if not missing and len(views) >= wanted:
                progress.clear()
                return views
        dead = [daemon for daemon in cluster.daemons(configuration) if daemon.pid() is None]
        if dead or time.monotonic() > deadline:
            progress.clear()
            what = "ended at once" if dead else f"did not answer within {timeout_s:g} s"
            blamed = [daemon.name for daemon in dead] or missing
            raise ClusterError(_failure(cluster, configuration, blamed, what))
        time.sleep(0.05)


def stop(
    cluster: LocalCluster, configuration: Configuration, *, keep_jobs: bool, progress: Progress
) -> list[str]:
    """Ends the daemons, and before them, unless `keep_jobs`, all jobs. Returns warnings."""
    if not cluster.running(configuration):
        return []
    warnings = []
    try:
        if not keep_jobs:
            # Jobs of a node whose daemon is away can only be ended with it back.
            if start_missing(cluster, configuration):
                await_nodes(cluster, configuration, 20.0, progress)
            _cancel_all(configuration, progress)
    except MinislurmError as error:
        warnings.append(f"jobs could not be cancelled, their processes may still run: {error}")
    finally:
        warnings += _end_daemons(cluster, configuration, progress)
    return warnings


def _end_daemons(cluster: LocalCluster, configuration: Configuration, progress: Progress) -> list[str]:
    """Node daemons first: each takes leave of a controller that is still there."""
    progress.show("stopping the daemons")
    running = cluster.running(configuration)
    killed = end(daemon for daemon in running if daemon.name != CONTROLLER)
    killed += end(daemon for daemon in running if daemon.name == CONTROLLER)
    progress.clear()
    return [f"{daemon.name} did not end by itself and was killed" for daemon in killed]


def restart(
    cluster: LocalCluster, configuration: Configuration, daemons: Sequence[Daemon], progress: Progress
) -> Sequence[NodeView]:
    """Ends and starts daemons, and waits until every node is back. Jobs go on meanwhile."""
    for daemon in end(daemons):
        progress.say(f"{daemon.name} did not end by itself and was killed")
    start_missing(cluster, configuration)
    return await_nodes(cluster, configuration, 30.0, progress)


def call(configuration: Configuration, action: Callable[[ControllerClient], None]) -> None:
    """Does something with a connection to the controller. Raises MinislurmError."""
    from minislurm.rpc.client import ControllerClient

    with ControllerClient(configuration) as client:
        action(client)


def _nodes(configuration: Configuration) -> list[NodeView] | None:
    """The nodes as the controller sees them; None while it does not answer."""
    result: list[NodeView] = []
    try:
        call(configuration, lambda client: result.extend(client.list_nodes()))
    except AccessDenied as error:
        raise ClusterError(f"the controller refuses our credential: {error}") from error
    except MinislurmError:
        return None
    return result


def _cancel_all(configuration: Configuration, progress: Progress) -> None:
    """Cancels every job and waits until nothing of them is left. Raises MinislurmError."""
    deadline = time.monotonic() + configuration.timers.kill_wait_s + 10.0

    def action(client: ControllerClient) -> None:
        from minislurm.domain.views import JobQuery

        asked: set[int] = set()
        while True:
            jobs = [view.job for view in client.list_jobs(JobQuery()) if not view.job.state.is_final]
            if not jobs:
                return
            new = [job.id for job in jobs if job.id not in asked]
            if new:
                client.cancel([JobTarget(job_id) for job_id in new])
                asked.update(new)
            if time.monotonic() > deadline:
                raise ClusterError(f"{len(jobs)} jobs are still ending")
            progress.show(f"cancelling {len(jobs)} jobs")
            time.sleep(0.1)

    call(configuration, action)


def _failure(cluster: LocalCluster, configuration: Configuration, names: Sequence[str], what: str) -> str:
    lines = [f"{', '.join(names)} {what}"]
    for name in names[:3]:
        daemon = cluster.daemon(configuration, name)
        lines.append(f"--- the end of {daemon.log_path}")
        lines += daemon.log_tail(_LOG_LINES) or ["(empty)"]
    return "\n".join(lines)
