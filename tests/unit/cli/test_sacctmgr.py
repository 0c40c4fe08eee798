"""sacctmgr against a controller's decisions, without a controller: words in, tree and text out."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cli import account_file, connection, sacctmgr
from minislurm.cluster.accounts import AccountsState, refuse_changes
from minislurm.cluster.budgets import SpendingRecord
from minislurm.domain.accounts import AccountChanges, AccountTree
from minislurm.domain.errors import ConfigurationError, Refusal, RefusalCode
from minislurm.domain.views import AccountsView


class Controller:
    """Decides as the real one does, on a tree of its own."""

    def __init__(self) -> None:
        self.accounts = AccountsState()
        self.changed = 0
        #: Called before a change arrives: what others do meanwhile.
        self.meanwhile: Callable[[], None] = lambda: None

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def tree(self) -> AccountTree:
        return self.accounts.tree

    def show_accounts(self) -> AccountsView:
        credits = self.accounts.budgets.credits(self.tree, 0.0)
        return AccountsView(self.tree, self.accounts.version, "test", credits)

    def change_accounts(self, changes: AccountChanges, version: int) -> None:
        self.meanwhile()
        if version != self.accounts.version:
            raise Refusal(RefusalCode.ACCOUNTS_CHANGED)
        refusal = refuse_changes(self.accounts, changes, [])
        if refusal is not None:
            raise refusal
        self.accounts.change(changes, [], [], 0.0)
        self.changed += 1


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    made = Controller()
    monkeypatch.setattr(connection, "connect", lambda: made)
    return made


@pytest.fixture
def run(controller: Controller, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def command(text: str, *more: str) -> tuple[int, str]:
        exit_code = sacctmgr.APPLICATION.main([*text.split(), *more])
        captured = capsys.readouterr()
        return exit_code, captured.out + captured.err

    return command


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def filled(run: Run) -> Run:
    """physics with lab below it; ann in both, bob in lab."""
    for words in (
        "add account physics fairshare=10 GrpTRES=cpu=100,gres/gpu=8",
        "add qos high priority=100 MaxJobsPU=2",
        "add account lab parent=physics MaxJobs=3 qos=normal,high",
        "add user ann account=physics,lab defaultaccount=lab",
        "add user bob account=lab fairshare=2 MaxWall=1-00:00:00",
    ):
        assert run(f"-iQ {words}") == (0, "")
    return run


# Adding


def test_an_account_is_added(controller: Controller, run: Run) -> None:
    exit_code, text = run("-i add account name=a parent=root fairshare=10 GrpTRES=cpu=10,gres/gpu=4")
    assert exit_code == 0
    assert text.startswith(
        " Adding Account(s)\n  a\n Settings\n  Description     = a\n  Organization    = a\n"
    )
    account = controller.tree.accounts["a"]
    assert (account.parent, account.weight) == ("root", 10)
    assert account.limits.group_tres == {"cpu": 10, "gres/gpu": 4}
    assert run("-i add account a") == (
        1, " This account 'a' already exists.  Not adding.\n Nothing new added.\n",
    )  # fmt: skip


def test_our_own_limits(controller: Controller, run: Run) -> None:
    run("-i add account a Guarantee=gres/gpu:a100=8 BorrowLimit=gres/gpu=4 lendlimit=gres/gpu:a100=2")
    account = controller.tree.accounts["a"]
    assert account.guarantee == {"gres/gpu:a100": 8}
    assert (account.borrow_limit, account.lend_limit) == ({"gres/gpu": 4}, {"gres/gpu:a100": 2})
    run("-i modify account a set guarantee=-1 GrpTRES=cpu=4,mem=1G")
    run("-i modify account a set GrpTRES=cpu=-1 GrpJobs=0")
    account = controller.tree.accounts["a"]
    assert account.guarantee == {}
    assert account.limits.group_tres == {"mem": 1024}, "only what is named changes"
    assert account.limits.group_jobs == 0, "nothing is a limit, too"


def test_users_are_added_to_accounts(controller: Controller, filled: Run) -> None:
    assert controller.tree.accounts_of("ann") == ["lab", "physics"]
    assert controller.tree.default_account("ann") == "lab"
    bob = controller.tree.association("lab", "bob")
    assert bob is not None
    assert (bob.weight, bob.limits.max_wall_s) == (2, 86400.0)
    assert filled("-i add user bob account=lab") == (1, " Nothing new added.\n")
    assert filled("-i add user bob account=nope") == (1, " This account 'nope' doesn't exist.\n")
    assert filled("-i add user cat") == (1, " Need name of account to add user to.\n")


# Modifying and deleting


def test_what_is_chosen_is_modified(controller: Controller, filled: Run) -> None:
    exit_code, text = filled("-i modify user where name=ann account=lab set fairshare=7 qos+=high")
    assert (exit_code, text.split()[:4]) == (0, ["Modified", "user", "associations...", "C"])
    lab, physics = controller.tree.association("lab", "ann"), controller.tree.association("physics", "ann")
    assert lab is not None
    assert physics is not None
    assert (lab.weight, lab.qos, physics.weight) == (7, ("high",), 1)
    assert filled("-i modify user nobody set fairshare=3") == (0, " Nothing modified\n")
    assert filled("-i modify user ann")[1] == " You didn't give me anything to set\n"
    filled("-i modify user ann set defaultaccount=physics")
    assert controller.tree.default_account("ann") == "physics"
    filled("-i modify qos high set maxjobspu=-1 flags=denyonlimit")
    assert controller.tree.qos["high"].max_jobs_per_user is None
    assert controller.tree.qos["high"].denies


def test_an_account_goes_with_all_below_it(controller: Controller, filled: Run) -> None:
    assert filled("-i delete account physics")[0] == 0
    assert sorted(controller.tree.accounts) == ["root"]
    assert sorted(controller.tree.users) == ["root"]


def test_a_default_account_is_the_last_to_go(controller: Controller, filled: Run) -> None:
    exit_code, text = filled("-i delete user where name=ann account=lab")
    assert (exit_code, text.splitlines()[0]) == (
        1, " Error with request: You can not remove the default account of a user",
    )  # fmt: skip
    assert filled("-i delete user where name=ann account=physics")[0] == 0
    assert filled("-i delete user ann") == (0, " Deleting users...\n  ann\n")
    assert "ann" not in controller.tree.users
    assert filled("-i delete user") == (1, " No conditions given to remove, not executing.\n")


def test_a_qos_leaves_every_list(controller: Controller, filled: Run) -> None:
    filled("-i delete qos high")
    assert controller.tree.accounts["lab"].qos == ("normal",)
    assert "high" not in controller.tree.qos


def test_guarantees_over_the_parents_are_refused_with_path_and_sums(
    controller: Controller, filled: Run
) -> None:
    filled("-i modify account physics set guarantee=gres/gpu=8")
    before = controller.tree
    assert filled("-i add account lab2 parent=physics guarantee=gres/gpu=9") == (
        1,
        " Error with request: The accounts cannot be changed in this way\n"
        "  root/physics: guarantees of gres/gpu below it come to 9 (lab2 9), its own is 8\n",
    )
    assert controller.tree == before


# Asking, and others who change the tree


def test_it_asks_first(controller: Controller, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("select.select", lambda r, w, x, t: (r, w, x))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    exit_code, text = run("add account a")
    assert exit_code == 0
    assert text.endswith(
        "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y):  Changes Discarded\n"
    )
    assert not controller.changed
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    run("add account a")
    assert controller.changed == 1


def test_a_change_is_made_on_the_tree_that_is_there(controller: Controller, filled: Run) -> None:
    """Another operator comes first: ours is worked out again, theirs is not overwritten."""

    def other() -> None:
        controller.meanwhile = lambda: None
        lab = replace(controller.tree.accounts["lab"], weight=42)
        controller.accounts.change(AccountChanges(accounts=(lab,)), [], [], 0.0)

    controller.meanwhile = other
    assert filled("-iQ modify account lab set priority=5") == (0, "")
    lab = controller.tree.accounts["lab"]
    assert (lab.weight, lab.priority) == (42, 5)


# Showing


def test_associations_in_columns(filled: Run) -> None:
    exit_code, text = filled("show assoc where account=lab format=account,user,share,maxjobs,qos%12")
    assert exit_code == 0
    assert text == (
        "   Account       User     Share MaxJobs          QOS \n"
        "---------- ---------- --------- ------- ------------ \n"
        "       lab                    1       3  high,normal \n"
        "       lab        ann         1          high,normal \n"
        "       lab        bob         2          high,normal \n"
    )


def test_columns_for_programs(filled: Run) -> None:
    assert filled("-nP show user ann format=account%256") == (0, "lab\nphysics\n")
    assert filled("-P show user format=user,defaultacct") == (
        0, "User|Def Acct\nann|lab\nbob|lab\nroot|root\n",
    )  # fmt: skip
    assert filled("-np show qos high format=name,priority,maxjobspu") == (0, "high|100|2|\n")
    assert filled("-n show account physics format=account%4,descr%-10") == (0, "phy+ physics    \n")


def test_the_empty_table_is_slurms(run: Run) -> None:
    """golden/sacctmgr_show_assoc.txt, first two rows."""
    _, text = run("show assoc")
    header, dashes, *rows = text.splitlines()
    assert header == (
        "   Cluster    Account       User  Partition     Share   Priority GrpJobs       GrpTRES GrpSubmit"
        "     GrpWall   GrpTRESMins MaxJobs       MaxTRES MaxTRESPerNode MaxSubmit     MaxWall   MaxTRESMins"
        "                  QOS   Def QOS GrpTRESRunMin "
    )
    assert len(dashes) == len(header)
    assert [row.split() for row in rows] == [
        ["test", "root", "1", "normal"],
        ["test", "root", "root", "1", "normal"],
    ]


# What is not understood


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "sacctmgr: error: interactive mode is not supported: give a command\n"),
        ("frobnicate", " invalid keyword: frobnicate\n"),
        ("show", " No entity given for show\n"),
        ("show tape", " invalid entity: tape\n"),
        ("show tres", "sacctmgr: error: show tres is not supported by minislurm\n"),
        ("add account a foo=1", " Unknown option: foo=1\n"),
        ("add account a rawusage=1", "sacctmgr: error: rawusage is not supported by minislurm\n"),
        (
            "add account a fairshare=parent",
            "sacctmgr: error: fairshare=parent is not supported by minislurm\n",
        ),
        ("add account a maxjobs=many", " Bad value for maxjobs: maxjobs=many\n"),
        ("add account a parent=b", " Parent account b doesn't exist.\n"),
        ("add account a cluster=other", " The cluster other is not this one (test)\n"),
        ("add qos q flags=NoDecay", "sacctmgr: error: the QOS flag NoDecay is not supported by minislurm\n"),
        ("show assoc format=nonsense", " Unknown field 'nonsense'\n"),
    ],
)
def test_what_is_not_understood_is_named(run: Run, controller: Controller, words: str, said: str) -> None:
    assert run(f"-i {words}") == (1, said)
    assert not controller.changed


# Files


def test_the_whole_tree_from_a_file_and_back(controller: Controller, filled: Run, tmp_path: Any) -> None:
    path = str(tmp_path / "tree.toml")
    assert filled("dump", path) == (0, "")
    before = controller.tree
    assert filled("-i load", path) == (0, " Nothing modified\n")
    filled("-iQ delete account physics")
    filled("-iQ add account other")
    exit_code, text = filled("-i load", path)
    assert exit_code == 0
    assert " Accounts removed\n  other\n" in text
    assert controller.tree == before
    assert account_file.read(filled("dump")[1], "file") == before


def test_a_file_that_is_wrong_is_refused_whole(controller: Controller, run: Run, tmp_path: Any) -> None:
    path = tmp_path / "tree.toml"
    path.write_text(
        '[[accounts]]\nname = "a"\nguarantee = "gres/gpu=2"\n'
        '[[accounts]]\nname = "b"\nparent = "a"\nguarantee = "gres/gpu=3"\n'
    )
    exit_code, text = run("-i load", str(path))
    assert exit_code == 1
    assert text == (
        f"sacctmgr: error: {path}: root/a: guarantees of gres/gpu below it come to 3 (b 3), its own is 2\n"
    )
    assert not controller.changed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no [[accounts]]; an empty tree has at least the one named root"),
        (b"[[qos]]\nname = 'q'\n", "has no [[accounts]]; an empty tree has at least the one named root"),
    ],
)
def test_a_file_that_was_cut_off_does_not_remove_everything(
    controller: Controller, filled: Run, tmp_path: Any, content: bytes, said: str
) -> None:
    path = tmp_path / "tree.toml"
    path.write_bytes(content)
    before = controller.changed
    assert filled("-i load", str(path)) == (1, f"sacctmgr: error: {path}: {said}\n")
    assert controller.changed == before


def test_a_file_that_is_no_text_is_named(run: Run, tmp_path: Any) -> None:
    path = tmp_path / "tree.toml"
    path.write_bytes(b"[[accounts]]\nname = '\xff'\n")
    assert run("-i load", str(path)) == (1, f"sacctmgr: error: {path}:2: not text in UTF-8\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[accounts]]\nparent = 'a'", "f: [[accounts]] number 1: has no name"),
        ("[[accounts]]\nname = 'a'\nshare = 3", "f: [[accounts]] number 1: share: unknown key"),
        (
            "[[accounts]]\nname = 'a'\nfairshare = -3",
            "f: [[accounts]] number 1: fairshare = -3: must be a whole number, 0 or more",
        ),
        ("[[accounts]]\nname = 'a'\n[[accounts]]\nname = 'a'", "f: [[accounts]] a: is there twice"),
        (
            "[tape]\nname = 'a'",
            "f: tape: unknown table (there are [[accounts]], [[users]], [[associations]], [[qos]])",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        account_file.read(text, "f")
    assert str(raised.value) == said


def test_what_is_left_of_a_budget_is_shown(controller: Controller, filled: Run) -> None:
    filled("-i modify account lab set budget=99.5")
    controller.accounts.budgets.spending["lab"] = SpendingRecord("lab", 0.0, 30.125)
    shown = filled("-nP show account format=account,budget,left")
    assert shown == (0, "lab|99.5|69.38\nphysics||\nroot||\n")
    shown = filled("-nP show assoc account=lab format=account,user,left")
    assert shown == (0, "lab||69.38\nlab|ann|\nlab|bob|\n")


def test_ranges_of_priority(controller: Controller, filled: Run) -> None:
    filled("-i modify account lab set MinPriority=5 MaxPriority=50")
    filled("-i modify user bob where account=lab set maxpriority=40")
    filled("-i modify qos high set MaxPriority=7")
    limits = controller.tree.accounts["lab"].limits
    assert (limits.min_priority, limits.max_priority) == (5, 50)
    shown = filled("-nP show assoc account=lab format=user,minpriority,maxpriority")
    assert shown == (0, "|5|50\nann||\nbob||40\n")
    assert filled("-nP show qos high format=name,maxpriority") == (0, "high|7\n")
    text = account_file.write(controller.tree)
    assert account_file.read(text, "f") == controller.tree
    filled("-i modify account lab set MinPriority=-1")
    assert controller.tree.accounts["lab"].limits.min_priority is None
    assert filled("-i modify qos high set MinPriority=8")[0] == 1, "above its highest"


def test_whom_a_qos_preempts(controller: Controller, filled: Run) -> None:
    filled("-i add qos low")
    filled("-i modify qos high set Preempt=low PreemptMode=cancel PreemptExemptTime=1:30:00 GraceTime=90")
    qos = controller.tree.qos["high"]
    assert (qos.preempt, qos.preempt_mode, qos.preempt_exempt_s, qos.grace_s) == (
        ("low",),
        "cancel",
        5400,
        90,
    )
    shown = filled("-nP show qos format=name,gracetime,preempt,preemptexempttime,preemptmode")
    assert "high|00:01:30|low|01:30:00|cancel\n" in shown[1]
    assert "low|00:00:00|||cluster\n" in shown[1]
    assert account_file.read(account_file.write(controller.tree), "f") == controller.tree
    filled("-i modify qos high set Preempt+=normal PreemptMode=OFF PreemptExemptTime=-1 GraceTime=-1")
    qos = controller.tree.qos["high"]
    assert (qos.preempt, qos.preempt_mode, qos.preempt_exempt_s, qos.grace_s) == (
        ("low", "normal"),
        "",
        None,
        None,
    )
    filled("-i delete qos low")
    assert controller.tree.qos["high"].preempt == ("normal",)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("Preempt=nobody", "QOS high: no such QOS nobody to preempt"),
        ("Preempt=high", "QOS high: would preempt itself (Preempt=high)"),
        ("Preempt=mid", "QOS high: would preempt itself (Preempt=mid)"),
        ("PreemptMode=suspend", "PreemptMode=suspend is not supported by minislurm"),
        ("PreemptMode=often", "Bad value for preemptmode: PreemptMode=often"),
    ],
)
def test_whom_a_qos_cannot_preempt(filled: Run, settings: str, said: str) -> None:
    assert filled("-i add qos mid preempt=high")[0] == 0
    status, text = filled(f"-i modify qos high set {settings}")
    assert status == 1
    assert said in text


def test_a_budget_is_given_by_period_and_taken_back(controller: Controller, filled: Run) -> None:
    assert filled("-i modify account lab set Budget=99.5 BudgetPeriod=7-0")[0] == 0
    lab = controller.tree.accounts["lab"]
    assert (lab.budget, lab.budget_period_s) == (99.5, 7 * 86400.0)
    shown = filled("-nP show assoc account=lab format=account,user,budget,budgetperiod")
    assert "lab||99.5|7-00:00:00" in shown[1]
    assert account_file.read(account_file.write(controller.tree), "it") == controller.tree
    filled("-i modify account lab set Budget=-1")
    assert controller.tree.accounts["lab"].budget is None
    assert controller.tree.accounts["lab"].budget_period_s is None


@pytest.mark.parametrize("words", ["Budget=x", "Budget=-2", "Budget=1.2345678", "BudgetPeriod=1:00:00"])
def test_a_bad_budget_is_refused(controller: Controller, filled: Run, words: str) -> None:
    code, text = filled(f"-i modify account lab set {words}")
    assert code == 1
    assert "Bad value for budget" in text or "lab: has a period of its budget, but no budget" in text
    assert controller.tree.accounts["lab"].budget is None
