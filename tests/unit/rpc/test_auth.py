"""Credentials: what is accepted, and everything that is not."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import jwt
import pytest

from minislurm.domain.configuration import AuthSection, ClusterSection, Configuration
from minislurm.domain.errors import AccessDenied, ConfigurationError
from minislurm.rpc import auth
from minislurm.rpc.auth import Caller, StepCredential, Verifier, node_token, step_token, user_token

KEY = b"k" * 64
STEP = StepCredential(job_id=12, run=2, step_id=0, user_id=1000)


@pytest.fixture
def verifier() -> Verifier:
    return Verifier(KEY, "farm", clock_skew_s=5.0)


def test_a_user_is_who_the_token_says(verifier: Verifier) -> None:
    token = user_token(KEY, "farm", 1000, 100, "ann")
    assert verifier.verify_caller(token) == Caller(1000, 100, "ann")
    assert verifier.verify_user(token) == Caller(1000, 100, "ann")


def test_a_node_is_itself_and_no_user(verifier: Verifier) -> None:
    caller = verifier.verify_caller(node_token(KEY, "farm", "n1"))
    assert caller.node == "n1"
    assert caller.user_id < 0, "a node must never pass as root"
    assert verifier.verify_node(node_token(KEY, "farm", "n1")) == "n1"


def test_a_step(verifier: Verifier) -> None:
    assert verifier.verify_step(step_token(KEY, "farm", STEP)) == STEP
    batch = StepCredential(1, 1, -1, 0)
    assert verifier.verify_step(step_token(KEY, "farm", batch)) == batch


def test_no_kind_passes_as_another(verifier: Verifier) -> None:
    user, node, step = (
        user_token(KEY, "farm", 0, 0, "root"),
        node_token(KEY, "farm", "n1"),
        step_token(KEY, "farm", STEP),
    )
    for check, token in [
        (verifier.verify_step, user),
        (verifier.verify_step, node),
        (verifier.verify_node, user),
        (verifier.verify_node, step),
        (verifier.verify_user, node),
        (verifier.verify_user, step),
        (verifier.verify_caller, step),
    ]:
        for _ in range(2):  # the second time from the verifier's memory
            with pytest.raises(AccessDenied):
                check(token)


def test_an_expired_token_is_refused_also_from_memory(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = user_token(KEY, "farm", 1000, 100, "ann", lifetime_s=30.0)
    verifier.verify_caller(token)
    later = time.time() + 30.0 + 5.0 + 1.0
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(AccessDenied):
        Verifier(KEY, "farm", clock_skew_s=5.0).verify_caller(
            user_token(KEY, "farm", 1, 1, "x", lifetime_s=-60)
        )
    monkeypatch.undo()
    stale = user_token(KEY, "farm", 1000, 100, "ann", lifetime_s=-6.0)
    with pytest.raises(AccessDenied, match="expired"):
        verifier.verify_caller(stale)
    verifier._known[token] = (time.time() - 1, Caller(0, 0, "stale memory"))
    assert verifier.verify_caller(token).user_id == 1000, (
        "what memory holds beyond its time is looked at anew"
    )


def test_clocks_may_differ_a_little(verifier: Verifier) -> None:
    just_over = user_token(KEY, "farm", 1000, 100, "ann", lifetime_s=-2.0)
    assert verifier.verify_caller(just_over).user_id == 1000


def test_a_token_from_the_future_is_refused(verifier: Verifier) -> None:
    now = time.time()
    claims = {
        "aud": "farm",
        "kind": "user",
        "sub": "1",
        "gid": 1,
        "name": "a",
        "iat": now + 60,
        "exp": now + 120,
    }
    with pytest.raises(AccessDenied, match="clocks differ"):
        verifier.verify_caller(jwt.encode(claims, KEY, algorithm="HS256"))


def test_another_cluster_is_refused(verifier: Verifier) -> None:
    with pytest.raises(AccessDenied, match="not for cluster farm"):
        verifier.verify_caller(user_token(KEY, "other", 1000, 100, "ann"))


def test_another_key_is_refused(verifier: Verifier) -> None:
    with pytest.raises(AccessDenied, match="not valid"):
        verifier.verify_caller(user_token(b"x" * 64, "farm", 0, 0, "root"))


def test_changed_claims_are_refused(verifier: Verifier) -> None:
    header, body, signature = user_token(KEY, "farm", 1000, 100, "ann").split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["sub"] = "0"
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    with pytest.raises(AccessDenied):
        verifier.verify_caller(f"{header}.{forged}.{signature}")


@pytest.mark.parametrize("algorithm", ["none", "HS512"])
def test_other_algorithms_are_refused(verifier: Verifier, algorithm: str) -> None:
    now = time.time()
    claims = {
        "aud": "farm",
        "kind": "user",
        "sub": "0",
        "gid": 0,
        "name": "root",
        "iat": now,
        "exp": now + 60,
    }
    token = jwt.encode(claims, None if algorithm == "none" else KEY, algorithm=algorithm)
    with pytest.raises(AccessDenied):
        verifier.verify_caller(token)


@pytest.mark.parametrize("missing", ["exp", "iat", "aud", "sub", "kind", "gid", "name"])
def test_a_token_without_a_claim_is_refused(verifier: Verifier, missing: str) -> None:
    now = time.time()
    claims = {"aud": "farm", "kind": "user", "sub": "1", "gid": 1, "name": "a", "iat": now, "exp": now + 60}
    assert verifier.verify_caller(jwt.encode(claims, KEY, algorithm="HS256"))
    del claims[missing]
    with pytest.raises(AccessDenied):
        verifier.verify_caller(jwt.encode(claims, KEY, algorithm="HS256"))


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "é.é.é", "x" * 100_000])
def test_garbage_is_refused(verifier: Verifier, token: str) -> None:
    with pytest.raises(AccessDenied):
        verifier.verify_caller(token)


def test_our_signing_is_what_pyjwt_reads() -> None:
    claims = jwt.decode(user_token(KEY, "farm", 1000, 100, "ann"), KEY, algorithms=["HS256"], audience="farm")
    assert (claims["sub"], claims["gid"], claims["name"], claims["kind"]) == ("1000", 100, "ann", "user")


def test_the_memory_is_bounded() -> None:
    verifier = Verifier(KEY, "farm", cache_size=10)
    for user_id in range(100):
        verifier.verify_caller(user_token(KEY, "farm", user_id, 0, "x"))
    assert len(verifier._known) <= 10


# --- metadata --------------------------------------------------------------------------------------------


def test_metadata_carries_the_token() -> None:
    assert auth.token_of([("x", "y"), auth.authorization("abc")]) == "abc"
    for metadata in ([], None, [("authorization", "abc")], [("authorization", b"Bearer abc")]):
        with pytest.raises(AccessDenied):
            auth.token_of(metadata)


# --- the key ---------------------------------------------------------------------------------------------


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "auth.key")
    umask = os.umask(0)
    try:
        key = auth.make_key(path)
    finally:
        os.umask(umask)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert len(key) >= 32
    assert auth.make_key(path) == key == auth.load_key(path)
    assert os.listdir(tmp_path) == ["auth.key"]


def test_makers_at_the_same_time_agree(tmp_path: Path) -> None:
    path, keys = str(tmp_path / "auth.key"), []
    threads = [threading.Thread(target=lambda: keys.append(auth.make_key(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert os.listdir(tmp_path) == ["auth.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "auth.key"
    auth.make_key(str(path))
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=rf"auth\.key: the key has mode {mode:04o}.*must be 0600"):
        auth.load_key(str(path))


def test_a_short_or_missing_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "auth.key"
    with pytest.raises(ConfigurationError, match="cannot read the key"):
        auth.load_key(str(path))
    path.write_text("short\n")
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match="5 bytes; at least 32"):
        auth.load_key(str(path))


# --- a command's credential ------------------------------------------------------------------------------


def configuration(folder: Path, **auth_keys: str) -> Configuration:
    return Configuration(
        cluster=ClusterSection(name="farm", state_dir=str(folder)),
        auth=AuthSection(**auth_keys),  # type: ignore[arg-type]
    )


def test_whoever_can_read_the_key_signs_for_itself(tmp_path: Path) -> None:
    key = auth.make_key(str(tmp_path / "auth.key"))
    token = auth.credential(configuration(tmp_path))
    caller = Verifier(key, "farm").verify_user(token)
    assert (caller.user_id, caller.group_id) == (os.geteuid(), os.getegid())
    assert auth.credential(configuration(tmp_path)) == token, "one token serves many calls"


def test_a_token_is_replaced_when_half_of_its_life_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth.make_key(str(tmp_path / "auth.key"))
    first = auth.credential(configuration(tmp_path))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61.0)
    assert auth.credential(configuration(tmp_path)) != first


def test_without_key_and_agent_there_is_no_credential(tmp_path: Path) -> None:
    with pytest.raises(
        AccessDenied, match=r"auth\.key is not readable for this user, and no agent answers at"
    ):
        auth.credential(configuration(tmp_path))


def test_signing_loads_neither_pyjwt_nor_grpc() -> None:
    """PyJWT alone costs 50 ms, and every command signs."""
    code = (
        "import sys; from minislurm.rpc import auth; auth.user_token(b'k' * 64, 'c', 1, 1, 'a');"
        "print([name for name in ('jwt', 'grpc', 'ssl', 'asyncio', 'typer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
