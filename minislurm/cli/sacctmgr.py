"""sacctmgr: shows and changes accounts, users, associations and QOS."""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from minislurm.cli.application import Application, print_line
from minislurm.cli.option import Option, flag
from minislurm.cli.printable import printable
from minislurm.cli.sacctmgr_words import Words, plain_error, read_words
from minislurm.domain.account_check import problems
from minislurm.domain.accounts import AccountChanges
from minislurm.domain.errors import Refusal, RefusalCode, UsageError
from minislurm.domain.views import AccountsView

if TYPE_CHECKING:
    from minislurm.cli.sacctmgr_change import Proposal
    from minislurm.cli.sacctmgr_show import Style
    from minislurm.rpc.client import ControllerClient

_ANSWER_TIME_S = 30.0
#: Somebody else changed the tree between our reading and writing it: so often it is tried again.
_ATTEMPTS = 5


def main() -> int:
    return APPLICATION.main()


class Values(Struct):
    immediate: bool = False
    no_header: bool = False
    parsable: bool = False
    parsable2: bool = False
    associations: bool = False
    quiet: bool = False


def run(values: Values, arguments: tuple[str, ...]) -> int:
    if not arguments:
        raise UsageError("interactive mode is not supported: give a command")
    keyword = _find(arguments[0], _KEYWORDS, "keyword")
    words = arguments[1:]
    match keyword:
        case "load":
            return _load(values, words)
        case "dump":
            return _dump(words)
        case "version":
            return APPLICATION.main(["--version"])
    if keyword in _UNSUPPORTED_KEYWORDS:
        raise UsageError(f"{keyword} is not supported by minislurm")
    if not words:
        raise plain_error(f"No entity given for {keyword}")
    head, equals, name = words[0].partition("=")
    entity = _find(head, tuple(_ENTITIES), "entity")
    if entity in _UNSUPPORTED_ENTITIES:
        raise UsageError(f"{keyword} {entity} is not supported by minislurm")
    rest = ((f"name={name}",) if equals else ()) + words[1:]
    action, kind = _ACTIONS[keyword], _ENTITIES[entity]
    if action == "show":
        return _show(values, kind, rest)
    if kind == "association":
        raise UsageError(f"{keyword} association: add, modify or delete accounts and users instead")
    return _change(values, action, kind, rest)


# Showing


def _show(values: Values, kind: str, texts: Sequence[str]) -> int:
    from minislurm.cli import sacctmgr_show
    from minislurm.cli.connection import connect

    words = read_words(texts, has_settings=False, flags=_SHOW_FLAGS[kind])
    if values.associations and kind in ("account", "user"):
        words.conditions["withassoc"] = "yes"
    show = {
        "account": sacctmgr_show.show_accounts,
        "user": sacctmgr_show.show_users,
        "association": sacctmgr_show.show_associations,
        "qos": sacctmgr_show.show_qos,
    }[kind]
    with connect() as client:
        view = client.show_accounts()
    lines = show(view, words, _style(values))
    if lines:
        print("\n".join(lines))
    return 0


def _style(values: Values) -> Style:
    from minislurm.cli.sacctmgr_show import Style

    separator = "|" if values.parsable or values.parsable2 else ""
    return Style(not values.no_header, separator, values.parsable)


# Changing


def _change(values: Values, action: str, kind: str, texts: Sequence[str]) -> int:
    from minislurm.cli.connection import connect

    words = read_words(texts, has_settings=action == "modify")
    if action == "modify" and not words.settings:
        raise plain_error("You didn't give me anything to set")
    with connect() as client:
        for attempt in range(_ATTEMPTS):
            view = client.show_accounts()
            proposal = _propose(view, action, kind, words)
            if proposal.changes.is_empty:
                _say(values, [*proposal.lines, proposal.nothing])
                return 0 if action == "modify" else 1
            wrong = tuple(problems(view.tree.changed(proposal.changes)))
            if wrong:
                return _refused(Refusal(RefusalCode.INVALID_ACCOUNTS, details=wrong))
            if not attempt:
                _say(values, proposal.lines)
                if not _confirmed(values):
                    return 0
            exit_code = _commit(client, view, proposal.changes, last=attempt == _ATTEMPTS - 1)
            if exit_code is not None:
                return exit_code
    return 1


def _propose(view: AccountsView, action: str, kind: str, words: Words) -> Proposal:
    from minislurm.cli.sacctmgr_change import Editor

    editor = Editor(view.tree, view.cluster)
    editor.check_cluster(words)
    make = {
        ("add", "account"): editor.add_accounts,
        ("add", "user"): editor.add_users,
        ("add", "qos"): editor.add_qos,
        ("modify", "account"): editor.modify_accounts,
        ("modify", "user"): editor.modify_users,
        ("modify", "qos"): editor.modify_qos,
        ("delete", "account"): editor.delete_accounts,
        ("delete", "user"): editor.delete_users,
        ("delete", "qos"): editor.delete_qos,
    }[action, kind]
    return make(words)


def _commit(
    client: ControllerClient, view: AccountsView, changes: AccountChanges, *, last: bool
) -> int | None:
    """The exit code; None: the tree is another one by now, and what to change has to be worked out again."""
    try:
        client.change_accounts(changes, view.version)
    except Refusal as refusal:
        if refusal.code is RefusalCode.ACCOUNTS_CHANGED and not last:
            return None
        return _refused(refusal)
    return 0


def _refused(refusal: Refusal) -> int:
    sys.stdout.flush()
    print_line(f" Error with request: {refusal}")
    for line in refusal.details:
        print_line(f"  {line}")
    return 1


def _say(values: Values, lines: Sequence[str]) -> None:
    if lines and not values.quiet:
        print("\n".join(printable(line) for line in lines))


def _confirmed(values: Values) -> bool:
    """As Slurm asks it: whatever is not "y" within half a minute discards the changes."""
    if values.immediate:
        return True
    print(f"Would you like to commit changes? (You have {_ANSWER_TIME_S:.0f} seconds to decide)")
    print("(N/y): ", end="", flush=True)
    ready, _, _ = select.select([sys.stdin], [], [], _ANSWER_TIME_S)
    answer = sys.stdin.readline() if ready else ""
    if answer.strip().lower() == "y":
        return True
    print(" Changes Discarded")
    return False


# The whole tree


def _load(values: Values, words: Sequence[str]) -> int:
    """Makes the tree that of the file: what the file does not have is removed."""
    from minislurm.cli import account_file
    from minislurm.cli.connection import connect

    tree = account_file.read_file(_one_file(words, "load"))
    with connect() as client:
        view = client.show_accounts()
        changes = view.tree.changes_to(tree)
        if changes.is_empty:
            _say(values, [" Nothing modified"])
            return 0
        _say(values, _summary(changes))
        if not _confirmed(values):
            return 0
        return _commit(client, view, changes, last=True) or 0


def _dump(words: Sequence[str]) -> int:
    from minislurm.cli import account_file
    from minislurm.cli.connection import connect

    if len(words) > 1:
        raise plain_error(f"Unknown option: {words[1]}")
    with connect() as client:
        text = account_file.write(client.show_accounts().tree)
    if not words:
        sys.stdout.write(text)
        return 0
    with open(words[0].partition("=")[2] or words[0], "w", encoding="utf-8") as file:
        file.write(text)
    return 0


def _one_file(words: Sequence[str], keyword: str) -> str:
    if len(words) != 1:
        raise plain_error(f"{keyword} needs the name of one file")
    head, equals, value = words[0].partition("=")
    return value if equals and head.lower() == "file" else words[0]


def _summary(changes: AccountChanges) -> list[str]:
    named = [
        ("Accounts set", [item.name for item in changes.accounts]),
        ("QOS set", [item.name for item in changes.qos]),
        ("Users set", [item.name for item in changes.users]),
        ("Associations set", [f"{item.user} in {item.account}" for item in changes.associations]),
        ("Accounts removed", list(changes.removed_accounts)),
        ("QOS removed", list(changes.removed_qos)),
        ("Users removed", list(changes.removed_users)),
        ("Associations removed", [f"{key.user} in {key.account}" for key in changes.removed_associations]),
    ]
    return [line for title, names in named if names for line in (f" {title}", *(f"  {n}" for n in names))]


def _find(text: str, known: Sequence[str], what: str) -> str:
    """Slurm takes any beginning of a word; the first that fits."""
    lowered = text.lower()
    if lowered in known:
        return lowered
    found = next((word for word in known if len(lowered) >= 3 and word.startswith(lowered)), None)
    if found is None:
        raise plain_error(f"invalid {what}: {text}")
    return found


_UNSUPPORTED_KEYWORDS = frozenset({"archive", "clear", "ping", "problem", "reconfigure", "shutdown"})
_ACTIONS = {
    "add": "add", "create": "add", "modify": "modify", "update": "modify", "set": "modify",
    "delete": "delete", "remove": "delete", "show": "show", "list": "show",
}  # fmt: skip
_KEYWORDS = (*_ACTIONS, "load", "dump", "version", *sorted(_UNSUPPORTED_KEYWORDS))
_UNSUPPORTED_ENTITIES = frozenset({
    "cluster", "clusters", "configuration", "coordinator", "event", "federation", "instance", "problem",
    "reservation", "resource", "runawayjobs", "stats", "transaction", "tres", "wckey",
})  # fmt: skip
_ENTITIES = {
    "account": "account", "accounts": "account", "acct": "account", "user": "user", "users": "user",
    "association": "association", "associations": "association", "assoc": "association",
    "assocs": "association", "qos": "qos", **dict.fromkeys(sorted(_UNSUPPORTED_ENTITIES), ""),
}  # fmt: skip
_SHOW_FLAGS = {
    "account": frozenset({"withassoc", "withassociations"}),
    "user": frozenset({"withassoc", "withassociations"}),
    "association": frozenset({"tree"}),
    "qos": frozenset[str](),
}

APPLICATION = Application(
    name="sacctmgr",
    summary="Show and change accounts, users and QOS.",
    synopsis="[OPTIONS] add|modify|delete|show account|user|qos|association ... | load FILE | dump [FILE]",
    options=(
        flag("immediate", "i", "Make the changes without asking."),
        flag("noheader", "n", "No header.", field="no_header"),
        flag("parsable", "p", "Columns separated by bars, with one at the end."),
        flag("parsable2", "P", "Columns separated by bars."),
        flag("associations", "s", "With show: the associations, too."),
        flag("quiet", "Q", "Say nothing but errors."),
        flag("oneliner", "o", supported=False),
        flag("readonly", "r", supported=False),
        flag("verbose", "v", supported=False),
        Option("json", supported=False),
        Option("yaml", supported=False),
    ),
    new_values=Values,
    run=run,
    help_short="h",
)
