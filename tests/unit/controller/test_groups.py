"""The groups of a user, as far as partitions ask for them."""

from __future__ import annotations

import grp
import os
import pwd

import pytest

from minislurm.controller.groups import GroupLookup
from minislurm.domain.configuration import Partition
from tests.builders import a_configuration

CONTROLLER = 4242


def a_lookup(*groups: str) -> GroupLookup:
    partitions = (Partition("batch", default=True), Partition("special", allow_groups=groups))
    return GroupLookup(a_configuration(0, partitions=partitions), CONTROLLER)


def test_only_groups_that_are_asked_for_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    person = pwd.getpwnam("daemon")
    own = grp.getgrgid(person.pw_gid).gr_name
    asked: list[str] = []
    real = os.getgrouplist

    def ask(user: str, group_id: int) -> list[int]:
        asked.append(user)
        return real(user, group_id)

    monkeypatch.setattr(os, "getgrouplist", ask)
    lookup = a_lookup(own, "no-such-group")
    for _ in range(2):
        assert lookup.of(person.pw_uid, "daemon", person.pw_gid) == (own,)
    assert asked == ["daemon"], "the second time it is known"
    assert a_lookup("no-such-group").of(person.pw_uid, "daemon", person.pw_gid) == ()
    asked.clear()
    assert a_lookup().of(person.pw_uid, "daemon", person.pw_gid) == ()
    assert asked == []


def test_root_and_the_controllers_user_are_in_every_group() -> None:
    for user_id in (0, CONTROLLER):
        assert a_lookup("a", "b").of(user_id, "whoever", 7) == ("a", "b")
