"""The node's control groups (cgroup v2): one for each run, below it one for each step.

They serve to find, freeze and kill; no controller is needed, so the "unified" tree of a hybrid host will do.
"""

from __future__ import annotations

import logging
import os

from minislurm.domain.errors import ConfigurationError
from minislurm.node.messages import RunKey
from minislurm.node.tracking import CgroupTracker

log = logging.getLogger(__name__)


class Cgroups:
    """Groups of one node daemon, below `base`."""

    def __init__(self, base: str) -> None:
        self.base = base

    def run_group(self, key: RunKey) -> str:
        return f"{self.base}/job_{key.job_id}_{key.run}"

    def make_run(self, key: RunKey) -> None:
        try:
            _make(self.run_group(key))
        except FileNotFoundError:  # somebody tidied up while nothing ran
            _make(self.base)
            _make(self.run_group(key))

    def make_step(self, key: RunKey, name: str) -> str:
        """The step's group, ready for processes. Raises OSError."""
        path = f"{self.run_group(key)}/{name}"
        try:
            os.mkdir(path)
        except FileNotFoundError:
            self.make_run(key)
            os.mkdir(path)
        except FileExistsError:
            pass
        return path

    def remove_run(self, key: RunKey) -> bool:
        """False where something still lives in it."""
        return CgroupTracker(self.run_group(key)).remove()

    def remove_others(self, known: set[RunKey]) -> None:
        """Ends what earlier daemons left behind of runs that are no longer known."""
        names = {os.path.basename(self.run_group(key)) for key in known}
        for name in os.listdir(self.base):
            path = f"{self.base}/{name}"
            if name.startswith("job_") and name not in names and os.path.isdir(path):
                log.warning("ending what is left in %s", path)
                leftover = CgroupTracker(path)
                leftover.kill()
                leftover.remove()

    def remove(self) -> None:
        """The node's own group, if nothing is left in it."""
        try:
            os.rmdir(self.base)
        except OSError:
            pass


def find_cgroups(tracking: str, name: str) -> Cgroups | None:
    """Groups for a node's daemon, None for tracking by descent.

    `tracking`: "cgroup", "process", or "auto": groups for root where there is a writable tree. Raises
    ConfigurationError where groups are asked for and cannot be had.
    """
    if tracking == "process" or (tracking == "auto" and os.geteuid() != 0):
        return None
    try:
        return Cgroups(make_base(name))
    except OSError as error:
        if tracking == "cgroup":
            raise ConfigurationError(f"node.tracking = cgroup: {error}") from error
        log.info("no control groups (%s): processes are tracked by descent", error)
        return None


def make_base(name: str) -> str:
    """Makes the node's group below the group this process is in. Raises OSError."""
    mount = v2_mount()
    if mount is None:
        raise OSError("no cgroup v2 tree is mounted")
    base = f"{mount}/{_own_group()}".rstrip("/") + f"/minislurm.{name}"
    _make(base)
    if not os.access(f"{base}/cgroup.procs", os.W_OK):
        raise OSError(f"{base}/cgroup.procs is not writable")
    return base


def v2_mount() -> str | None:
    """Where the cgroup v2 tree is mounted (on hybrid hosts /sys/fs/cgroup/unified)."""
    with open("/proc/mounts") as file:
        for line in file:
            fields = line.split()
            if len(fields) > 2 and fields[2] == "cgroup2":
                return fields[1].replace("\\040", " ")
    return None


def _own_group() -> str:
    with open("/proc/self/cgroup") as file:
        for line in file:
            if line.startswith("0::"):
                return line[3:].strip().strip("/")
    return ""


def _make(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
