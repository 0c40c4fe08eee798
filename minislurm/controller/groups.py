"""Which of the groups that partitions ask for (AllowGroups) a user is in, as this host knows it."""

from __future__ import annotations

import grp
import os
import time

from minislurm.domain.configuration import Configuration

#: What a directory service was asked is not asked again for so long (seconds).
_KNOWN_S = 60.0


class GroupLookup:
    def __init__(self, configuration: Configuration, own_user_id: int) -> None:
        named = {name for partition in configuration.partitions for name in partition.allow_groups}
        self._named = tuple(sorted(named))
        self._own_user_id = own_user_id
        self._known: dict[tuple[str, int], tuple[float, tuple[str, ...]]] = {}

    def of(self, user_id: int, user_name: str, group_id: int) -> tuple[str, ...]:
        """Those of the groups that partitions name in which the user is; root and the user that the
        controller runs as are in all, as in Slurm."""
        if not self._named or user_id in (0, self._own_user_id):
            return self._named
        now = time.monotonic()
        asked, groups = self._known.get((user_name, group_id), (-_KNOWN_S, ()))
        if now >= asked + _KNOWN_S:
            groups = self._ask(user_name, group_id)
            self._known[user_name, group_id] = (now, groups)
        return groups

    def _ask(self, user_name: str, group_id: int) -> tuple[str, ...]:
        ids = set(os.getgrouplist(user_name, group_id))
        return tuple(name for name in self._named if _id_of(name) in ids)


def _id_of(group: str) -> int | None:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None
