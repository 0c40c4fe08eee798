"""Several users on root's daemons: each acts as itself, whatever it claims."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minislurm.domain.configuration_file import load
from minislurm.domain.errors import AccessDenied, MinislurmError
from minislurm.domain.ids import JobId
from minislurm.domain.views import JobChanges, JobQuery, JobTarget, StepRequest, Submission
from minislurm.rpc import auth
from minislurm.rpc.client import ControllerClient
from tests.builders import a_spec

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user"),
]

NOBODY = 65534
ROOT_DIRECTORY = Path(__file__).resolve().parents[2]

#: Runs in a process that loads everything as root, since other users may not read this checkout, and then
#: becomes nobody for good. `call` sees `client` and `spec`; what it returns is printed as JSON.
_AS_NOBODY = """
import json, os, sys
sys.path.insert(0, {root!r})
from minislurm.domain import configuration_file, hostlist
from minislurm.domain.errors import MinislurmError, Refusal
from minislurm.domain.views import JobChanges, JobQuery, JobTarget, StepRequest, Submission
from minislurm.rpc import agent, auth, client as rpc_client
from minislurm.rpc.gen import controller_pb2
from tests.builders import a_spec
import encodings.idna, grpc, importlib, jwt
importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
os.setgroups([])
os.setresgid({uid}, {uid}, {uid})
os.setresuid({uid}, {uid}, {uid})
configuration = configuration_file.load({config!r})
with rpc_client.ControllerClient(configuration) as client:
    try:
        result = ({call})(client)
    except MinislurmError as error:
        result = [type(error).__name__, str(error)]
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A cluster of root's in a folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="ms-users-"))
    folder.chmod(0o755)
    (folder / "out").mkdir()
    (folder / "out").chmod(0o777)
    command = [sys.executable, "-m", "minislurm.cli.minislurm"]
    state = ["--state-dir", str(folder / "c")]
    try:
        up = [*command, "up", *state, "--nodes", "1", "--racks", "0", "--set", "timers.kill_wait_s=1"]
        up += ["--set", "partitions.staff.nodes=n1", "--set", "partitions.staff.allow_groups=root"]
        subprocess.run(up, check=True, capture_output=True, text=True, timeout=100)
        yield folder
    finally:
        subprocess.run([*command, "down", *state], capture_output=True, timeout=100)
        shutil.rmtree(folder)


def as_nobody(folder: Path, call: str) -> object:
    code = _AS_NOBODY.format(
        root=str(ROOT_DIRECTORY), uid=NOBODY, config=str(folder / "c" / "minislurm.toml"), call=call
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_whole_state_is_for_operators(folder: Path) -> None:
    refused = as_nobody(folder, "lambda client: client.export_state()")
    assert refused == ["Refusal", "Access/permission denied"]
    with ControllerClient(load(str(folder / "c" / "minislurm.toml"))) as client:
        export = client.export_state()
    assert export.since or export.by_kind


def a_submission(folder: Path, script: str, **changes: object) -> str:
    """Source of a submission by nobody."""
    values = {
        "user_id": NOBODY,
        "group_id": NOBODY,
        "user_name": "nobody",
        "std_out": f"{folder}/out/%j",
        "work_dir": f"{folder}/out",
        **changes,
    }
    options = ", ".join(f"{key}={value!r}" for key, value in values.items())
    return f"Submission(a_spec({options}), script={script.encode()!r}, environment=(b'PATH=/usr/bin:/bin',))"


def until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def is_final(folder: Path, job_id: int) -> bool:
    with ControllerClient(load(str(folder / "c" / "minislurm.toml"))) as client:
        return client.list_jobs(JobQuery((JobId(job_id),), include_ended=True))[0].job.state.is_final


def job_ids(folder: Path) -> set[int]:
    with ControllerClient(load(str(folder / "c" / "minislurm.toml"))) as client:
        return {view.job.id for view in client.list_jobs(JobQuery(include_ended=True))}


def output_of(folder: Path, job_id: object) -> str:
    assert isinstance(job_id, int), job_id
    until(lambda: is_final(folder, job_id))
    return (folder / "out" / str(job_id)).read_text()


def test_a_job_runs_as_its_user(folder: Path) -> None:
    submission = a_submission(folder, "#!/bin/sh\nid -u; id -g; id -G\n")
    job_id = as_nobody(folder, f"lambda c: c.submit({submission})")
    assert output_of(folder, job_id).split() == [str(NOBODY)] * 3
    assert (folder / "out" / str(job_id)).stat().st_uid == NOBODY


def test_nobody_cannot_submit_as_root(folder: Path) -> None:
    submission = a_submission(folder, "#!/bin/sh\nid -u\n", user_id=0, group_id=0, user_name="root")
    before = job_ids(folder)
    assert as_nobody(folder, f"lambda c: c.submit({submission})") == ["Refusal", "Access/permission denied"]
    assert job_ids(folder) <= before, "there is no such job either"


def test_nobody_cannot_have_roots_groups(folder: Path) -> None:
    submission = a_submission(folder, "#!/bin/sh\nid -u; id -G\n", group_id=0, user_name="root")
    job_id = as_nobody(folder, f"lambda c: c.submit({submission})")
    assert output_of(folder, job_id).split() == [str(NOBODY)] * 2


def test_nobody_cannot_have_roots_groups_through_a_stream(folder: Path) -> None:
    submission = a_submission(folder, "#!/bin/sh\nid -u; id -G\n", group_id=0, user_name="root")
    job_id = as_nobody(folder, f"lambda c: next(iter(c.submit_many([{submission}])))")
    assert output_of(folder, job_id).split() == [str(NOBODY)] * 2


def test_only_users_of_its_groups_submit_to_a_partition(folder: Path) -> None:
    """Whatever groups the request claims."""
    submission = a_submission(folder, "#!/bin/sh\n", partition="staff", groups=("root",), group_id=0)
    refused = as_nobody(folder, f"lambda c: c.submit({submission})")
    assert refused == ["Refusal", "User's group not permitted to use this partition"]
    mine = a_submission(folder, "#!/bin/sh\n")
    job_id = as_nobody(folder, f"lambda c: c.submit({mine.replace('a_spec(', 'a_spec(hold=True, ')})")
    update = f"c.update_job([JobTarget({job_id})], JobChanges(partition='staff'))"
    moved = as_nobody(folder, f"lambda c: [str(o.refusal) for o in {update}]")
    assert moved == ["User's group not permitted to use this partition"]
    spec = a_spec(user_id=0, user_name="root", partition="staff", std_out="/dev/null", work_dir="/")
    with ControllerClient(load(str(folder / "c" / "minislurm.toml"))) as client:
        (staff,) = (found for found in client.list_partitions() if found.name == "staff")
        assert staff.allow_groups == ("root",)
        roots = client.submit(Submission(spec, script=b"#!/bin/sh\n", environment=(b"PATH=/bin",)))
        until(lambda: is_final(folder, roots))
        client.cancel([JobTarget(JobId(int(str(job_id))))])


def test_nobody_cannot_touch_roots_job(folder: Path) -> None:
    spec = a_spec(user_id=0, user_name="root", std_out="/dev/null", work_dir="/")
    with ControllerClient(load(str(folder / "c" / "minislurm.toml"))) as client:
        job_id = client.submit(Submission(spec, script=b"#!/bin/sh\nsleep 60\n", environment=(b"PATH=/bin",)))
        actions = ("cancel(t)", "cancel(t, signal=10)", "hold(t)", "release(t)", "requeue(t)",
                   "update_job(t, JobChanges(comment='x'))")  # fmt: skip
        all_of_them = ", ".join(f"c.{action}" for action in actions)
        outcomes = as_nobody(
            folder,
            f"lambda c, t=[JobTarget({job_id})]:"
            f" [str(o.refusal and o.refusal.code) for done in ({all_of_them}) for o in done]",
        )
        assert dict(zip(actions, outcomes, strict=True)) == dict.fromkeys(actions, "RefusalCode.ACCESS")
        for call in (f"create_step(StepRequest({job_id}))", f"end_allocation({job_id}, 0)"):
            refused = as_nobody(folder, f"lambda c: c.{call}")
            assert refused == ["Refusal", "Access/permission denied"], call
        assert not client.list_jobs(JobQuery((job_id,)))[0].job.state.is_final
        client.cancel([JobTarget(job_id)])
        until(lambda: is_final(folder, job_id))


def test_the_key_and_the_journal_are_roots_alone(folder: Path) -> None:
    configuration = load(str(folder / "c" / "minislurm.toml"))
    assert (folder / "c" / "state").stat().st_mode & 0o077 == 0
    assert Path(configuration.key_file).stat().st_mode & 0o077 == 0


#: Every call that the controller answers to a command.
CALLS: tuple[Callable[[ControllerClient], object], ...] = (
    lambda c: c.ping(),
    lambda c: c.list_jobs(JobQuery()),
    lambda c: c.list_nodes(),
    lambda c: c.list_partitions(),
    lambda c: c.show_configuration(),
    lambda c: c.submit(Submission(a_spec(user_id=0), script=b"#!/bin/sh\n")),
    lambda c: next(c.submit_many([Submission(a_spec(user_id=0), script=b"#!/bin/sh\n")])),
    lambda c: c.test_only(Submission(a_spec(user_id=0), script=b"#!/bin/sh\n")),
    lambda c: c.cancel([JobTarget(JobId(1))]),
    lambda c: c.hold([JobTarget(JobId(1))]),
    lambda c: c.release([JobTarget(JobId(1))]),
    lambda c: c.requeue([JobTarget(JobId(1))]),
    lambda c: c.update_job([JobTarget(JobId(1))], JobChanges(comment="x")),
    lambda c: c.update_node(["n1"], reason="x"),
    lambda c: c.update_partition("batch", "UP"),
    lambda c: next(c.watch_job(JobId(1))),
    lambda c: next(c.hold_allocation(JobId(1))),
    lambda c: c.end_allocation(JobId(1), 0),
    lambda c: c.create_step(StepRequest(JobId(1))),
)


def test_without_a_credential_nothing_is_answered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = load(str(folder / "c" / "minislurm.toml"))
    key, cluster = auth.load_key(configuration.key_file), configuration.cluster.name
    wrong = {
        "none": "",
        "garbage": "x.y.z",
        "another key": auth.user_token(b"x" * 64, cluster, 0, 0, "root"),
        "another cluster": auth.user_token(key, "other", 0, 0, "root"),
        "expired": auth.user_token(key, cluster, 0, 0, "root", lifetime_s=-60),
        "a node's": auth.node_token(key, cluster, "n1"),
        "a step's": auth.step_token(key, cluster, auth.StepCredential(1, 1, 0, 0)),
    }
    for what, token in wrong.items():
        monkeypatch.setattr(auth, "credential", lambda _, token=token: token)
        with ControllerClient(configuration) as client:
            answered = [number for number, call in enumerate(CALLS) if is_answered(client, call)]
            assert not answered, what


def is_answered(client: ControllerClient, call: Callable[[ControllerClient], object]) -> bool:
    try:
        call(client)
    except AccessDenied:
        return False
    except MinislurmError:
        return True
    return True


def test_a_job_s_checkpoints_are_handled_as_its_user(folder: Path) -> None:
    """Its folder is made, looked at and tidied as nobody, who may not even read where Python is."""
    script = """#!/bin/sh
cd $MINISLURM_CHECKPOINT_DIR
for step in 1 2 3; do mkdir new; echo $step > new/w; mv new step$step; sleep 0.3; done
until [ ! -e step1 ]; do sleep 0.1; done
"""
    options = {"checkpoint_dir": "ckpt-%j", "checkpoint_keep": 2}
    submission = a_submission(folder, script, **options)
    job_id = as_nobody(folder, f"lambda c: c.submit({submission})")
    assert output_of(folder, job_id) == ""
    directory = folder / "out" / f"ckpt-{job_id}"
    assert directory.stat().st_uid == NOBODY
    assert sorted(path.name for path in directory.iterdir()) == ["step2", "step3"]
    query = f"JobQuery(({job_id},), include_ended=True)"
    reported = as_nobody(folder, f"lambda c: [x.path for x in c.list_jobs({query})[0].job.checkpoints]")
    assert reported == [str(directory / name) for name in ("step2", "step3")]
    (folder / "private").mkdir(mode=0o700, exist_ok=True)
    submission = a_submission(folder, script, checkpoint_dir=str(folder / "private" / "x"))
    job_id = as_nobody(folder, f"lambda c: c.submit({submission})")
    assert isinstance(job_id, int)
    until(lambda: is_final(folder, job_id))
    assert not (folder / "private" / "x").exists()
