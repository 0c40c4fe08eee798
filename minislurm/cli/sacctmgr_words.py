"""sacctmgr's words: ``name=a set GrpTRES=cpu=10 where ...``, read into conditions and settings.

Keys are taken in any case and shortened as long as they name one. What Slurm has and minislurm does not is
refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.cli.option_values import parse_bid
from minislurm.cli.printable import printable
from minislurm.cli.word import Word, split_word
from minislurm.domain import tres
from minislurm.domain.accounts import QOS_FLAGS, QOS_PREEMPT_MODES, AssociationLimits
from minislurm.domain.errors import UsageError
from minislurm.domain.times import parse_duration


class Words(Struct):
    """`conditions`: which records; `settings`: what they are to be."""

    conditions: dict[str, str] = field(default_factory=dict)
    settings: list[Word] = field(default_factory=list)

    def names(self, key: str, *, keep_case: bool = False) -> tuple[str, ...]:
        return split_names(self.conditions.get(key, ""), keep_case=keep_case)


def split_names(text: str, *, keep_case: bool = False) -> tuple[str, ...]:
    """As Slurm, in lower case; but users are who the host says they are."""
    text = text.replace('"', "").replace("'", "")
    return tuple(name if keep_case else name.lower() for name in text.split(",") if name)


def plain_error(message: str) -> UsageError:
    """Printed with a blank before it, as sacctmgr does, without "sacctmgr: error: "."""
    return UsageError(" " + printable(message), prefix=False)


#: Every spelling of a key -> the key.
SPELLINGS = {
    "name": "name", "names": "name", "acct": "account", "account": "account", "accounts": "account",
    "user": "user", "users": "user", "cluster": "cluster", "clusters": "cluster", "parent": "parent",
    "description": "description", "organization": "organization", "defaultaccount": "defaultaccount",
    "defaultacct": "defaultaccount", "fairshare": "fairshare", "share": "fairshare", "shares": "fairshare",
    "priority": "priority", "grptres": "grptres", "grpjobs": "grpjobs", "grpsubmit": "grpsubmit",
    "grpsubmitjobs": "grpsubmit", "maxjobs": "maxjobs", "maxsubmit": "maxsubmit",
    "maxsubmitjobs": "maxsubmit", "maxtres": "maxtres", "maxtresperjob": "maxtres", "maxtrespj": "maxtres",
    "maxwall": "maxwall", "maxwalldurationperjob": "maxwall", "maxwallpj": "maxwall", "qos": "qos",
    "qoslevel": "qos", "defaultqos": "defaultqos", "defqos": "defaultqos", "guarantee": "guarantee",
    "borrowlimit": "borrowlimit", "lendlimit": "lendlimit", "flags": "flags",
    "maxtresperuser": "maxtrespu", "maxtrespu": "maxtrespu", "maxjobsperuser": "maxjobspu",
    "maxjobspu": "maxjobspu", "maxsubmitjobsperuser": "maxsubmitpu", "maxsubmitpu": "maxsubmitpu",
    "maxsubmitjobspu": "maxsubmitpu", "format": "format", "grpcpus": "grpcpus", "grpnodes": "grpnodes",
    "grpmem": "grpmem", "maxcpus": "maxcpus", "maxcpusperjob": "maxcpus", "maxnodes": "maxnodes",
    "maxnodesperjob": "maxnodes", "level": "name", "budget": "budget", "budgetperiod": "budgetperiod",
    "minpriority": "minpriority", "maxpriority": "maxpriority", "preempt": "preempt",
    "preemptmode": "preemptmode", "preemptexempttime": "preemptexempttime", "gracetime": "gracetime",
}  # fmt: skip

_UNSUPPORTED = frozenset({
    "adminlevel", "coordinators", "defaultwckey", "wckeys", "grpwall", "grptresmins", "grptresrunmins",
    "grpcpumins", "grpcpurunmins", "maxtresmins", "maxtresminsperjob", "maxtrespernode", "maxcpumins",
    "maxtresperaccount", "maxtrespa", "maxjobsperaccount", "maxjobspa", "maxsubmitjobsperaccount",
    "maxsubmitpa", "maxjobsaccrue", "maxjobsaccrueperuser", "grpjobsaccrue", "minpriothreshold",
    "minpriothresh", "mintresperjob", "mintres",
    "usagefactor", "usagethreshold", "limitfactor", "rawusage", "newname", "partition", "partitions",
    "comment", "email", "nodes", "start", "end",
})  # fmt: skip


def read_words(texts: Sequence[str], *, has_settings: bool, flags: frozenset[str] = frozenset()) -> Words:
    """`has_settings`: conditions and settings stand apart (modify); otherwise all are settings but names.

    Raises UsageError.
    """
    words = Words()
    part = "where"
    for text in texts:
        lowered = text.lower()
        if lowered in ("where", "set"):
            part = lowered
            continue
        if lowered in flags:
            words.conditions["withassoc" if lowered.startswith("withassoc") else lowered] = "yes"
            continue
        word = _word(text)
        if has_settings and part == "set":
            words.settings.append(word)
            continue
        if word.operator not in ("", "="):
            raise plain_error(f"Unknown condition: {text}")
        names = words.conditions.get("name")
        # "add account a b": names may also come one by one.
        if not word.key and names:
            words.conditions["name"] = f"{names},{word.value}"
        else:
            words.conditions[word.key or "name"] = word.value
        if not has_settings and word.key:
            words.settings.append(word)
    return words


def _word(text: str) -> Word:
    """With its key as it is known; "" for a bare name, which is the value."""
    try:
        word = split_word(text)
    except UnicodeEncodeError:
        raise plain_error(f"Unknown option: {text}") from None
    if not word.operator:
        return Word("", "", text, text)
    return replace(word, key=_key(word.key, text))


def _key(head: str, text: str) -> str:
    lowered = head.lower()
    if lowered in SPELLINGS:
        return SPELLINGS[lowered]
    if lowered in _UNSUPPORTED:
        raise UsageError(f"{printable(head)} is not supported by minislurm")
    fitting = {
        key for spelling, key in SPELLINGS.items() if len(lowered) > 2 and spelling.startswith(lowered)
    }
    if len(fitting) != 1:
        raise plain_error(f"Unknown option: {text}")
    return fitting.pop()


# Values


def parse_limit(word: Word) -> int | None:
    """A number; None for -1, which takes a limit back."""
    if word.value == "-1":
        return None
    if not (word.value.isascii() and word.value.isdigit()) or len(word.value) > 15:
        raise plain_error(f"Bad value for {word.key}: {word.text}")
    return int(word.value)


def parse_weight(word: Word) -> int:
    if word.value.lower() == "parent":
        raise UsageError("fairshare=parent is not supported by minislurm")
    value = parse_limit(word)
    return 1 if value is None else value


def parse_wall(word: Word) -> float | None:
    if word.value == "-1":
        return None
    try:
        return parse_duration(word.value)
    except ValueError:
        raise plain_error(f"Bad value for {word.key}: {word.text}") from None


def parse_grace(word: Word) -> float | None:
    """GraceTime: a plain number is seconds, as Slurm has it here."""
    if word.value.isascii() and word.value.isdigit() and len(word.value) <= 15:
        return float(word.value)
    return parse_wall(word)


def parse_preempt_mode(word: Word) -> str:
    """For Slurm "off" is the same as "cluster": as it is elsewhere."""
    mode = word.value.lower()
    if mode in ("", "off", "cluster", "-1"):
        return ""
    if mode in QOS_PREEMPT_MODES:
        return mode
    if mode in ("suspend", "gang", "within"):
        raise UsageError(f"PreemptMode={printable(word.value)} is not supported by minislurm")
    raise plain_error(f"Bad value for {word.key}: {word.text}")


def parse_budget(word: Word) -> float | None:
    """Credits; None for -1."""
    if word.value == "-1":
        return None
    try:
        return parse_bid(word.value)
    except ValueError:
        raise plain_error(f"Bad value for {word.key}: {word.text}") from None


def changed_tres(before: Mapping[str, int], word: Word) -> dict[str, int]:
    """Only the TRES that are named change; -1 takes one back, or all of them."""
    if word.value == "-1":
        return {}
    try:
        given = tres.parse_tres(word.value)
    except ValueError as error:
        raise plain_error(f"Bad value for {word.key}: {error}") from None
    merged: dict[str, int | None] = {**before, **given}
    return {name: amount for name, amount in merged.items() if amount is not None}


def changed_list(before: tuple[str, ...], word: Word) -> tuple[str, ...]:
    """``qos=a,b`` sets, ``qos+=a`` adds, ``qos-=a`` takes away."""
    return _merged(before, () if word.value == "-1" else split_names(word.value), word.operator)


def changed_flags(before: tuple[str, ...], word: Word) -> tuple[str, ...]:
    known = {flag.lower(): flag for flag in QOS_FLAGS}
    names = [] if word.value == "-1" else [name for name in word.value.split(",") if name]
    for name in names:
        if name.lower() not in known:
            raise UsageError(f"the QOS flag {printable(name)} is not supported by minislurm")
    return _merged(before, tuple(known[name.lower()] for name in names), word.operator)


def _merged(before: tuple[str, ...], given: tuple[str, ...], operator: str) -> tuple[str, ...]:
    if operator == "+=":
        return (*before, *(name for name in given if name not in before))
    if operator == "-=":
        return tuple(name for name in before if name not in given)
    return given


_LIMITS: dict[str, tuple[str, Callable[[Word], object]]] = {
    "grpjobs": ("group_jobs", parse_limit),
    "grpsubmit": ("group_submit_jobs", parse_limit),
    "maxjobs": ("max_jobs", parse_limit),
    "maxsubmit": ("max_submit_jobs", parse_limit),
    "maxwall": ("max_wall_s", parse_wall),
    "minpriority": ("min_priority", parse_limit),
    "maxpriority": ("max_priority", parse_limit),
}
_TRES_LIMITS = {"grptres": "group_tres", "maxtres": "max_tres_per_job"}
#: Old ways to name one TRES of a limit.
_ONE_TRES = {
    "grpcpus": ("group_tres", tres.CPU), "grpnodes": ("group_tres", tres.NODE),
    "grpmem": ("group_tres", tres.MEMORY), "maxcpus": ("max_tres_per_job", tres.CPU),
    "maxnodes": ("max_tres_per_job", tres.NODE),
}  # fmt: skip


def changed_limits(limits: AssociationLimits, word: Word) -> AssociationLimits | None:
    """With the setting of one word; None if it is about something else."""
    changes: dict[str, Any]
    if word.key in _LIMITS:
        name, parse = _LIMITS[word.key]
        changes = {name: parse(word)}
    elif word.key in _TRES_LIMITS:
        name = _TRES_LIMITS[word.key]
        changes = {name: changed_tres(getattr(limits, name), word)}
    elif word.key in _ONE_TRES:
        name, of = _ONE_TRES[word.key]
        one = Word(word.key, word.operator, f"{of}={word.value}", word.text)
        changes = {name: changed_tres(getattr(limits, name), one)}
    else:
        return None
    return replace(limits, **changes)
