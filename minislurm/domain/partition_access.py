"""Whose jobs a partition takes: AllowAccounts, DenyAccounts, AllowQos, DenyQos, AllowGroups, as in Slurm.

Where there is a list of who is allowed, that of who is denied says nothing. Accounts and QOS are written in
any case.
"""

from __future__ import annotations

from collections.abc import Iterable

from minislurm.domain.configuration import Partition


def refused_account(partition: Partition, account: str) -> str:
    """In words; "": it may be used."""
    return _refused("account", partition, account, partition.allow_accounts, partition.deny_accounts)


def refused_qos(partition: Partition, qos: str) -> str:
    """In words; "": it may be used."""
    return _refused("QOS", partition, qos, partition.allow_qos, partition.deny_qos)


def allows_groups(partition: Partition, groups: Iterable[str]) -> bool:
    """Is one of a user's groups among those of the partition?"""
    return not partition.allow_groups or not set(groups).isdisjoint(partition.allow_groups)


def _refused(
    kind: str, partition: Partition, name: str, allowed: tuple[str, ...], denied: tuple[str, ...]
) -> str:
    if allowed:
        if name.lower() in (item.lower() for item in allowed):
            return ""
        return f"partition {partition.name} does not take {kind} {name}, only {', '.join(allowed)}"
    if name.lower() in (item.lower() for item in denied):
        return f"partition {partition.name} does not take {kind} {name}"
    return ""
