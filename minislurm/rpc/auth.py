"""Credentials: short-lived JWTs (RFC 7519, HS256) signed with the cluster's key, and their verification.

Three kinds, and none passes as another: `user` (a person's command), `node` (a node daemon), `step` (srun to
the nodes of one step). A process that may read the key signs for itself; any other asks its host's agent
(`rpc.agent`), which asks the kernel who is calling.

Signing is a few lines of standard library, since importing PyJWT costs a command 50 ms; whatever judges a
token goes through PyJWT.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import AccessDenied, ConfigurationError

METADATA_KEY = "authorization"
#: RFC 7518, 3.2: an HS256 key has at least the size of the hash.
MINIMUM_KEY_BYTES = 32
CLOCK_SKEW_S = 10.0
NODE_USER_ID = -1


class Caller(Struct, frozen=True):
    """Who calls. `node` is "" for a person; for a node daemon it is its name, and `user_id` is nobody's."""

    user_id: int
    group_id: int
    user_name: str
    node: str = ""


class StepCredential(Struct, frozen=True):
    """What srun may do on a node: launch this step of this run as this user."""

    job_id: int
    run: int
    step_id: int
    user_id: int


# --- the key ---------------------------------------------------------------------------------------------


def load_key(path: str) -> bytes:
    """The cluster's key.

    Raises ConfigurationError where it is missing, too short or open to others, AccessDenied where this user
    may not read it.
    """
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            key = file.read(65536).strip()
    except PermissionError as error:
        raise AccessDenied(f"{path}: the key is not readable for this user") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot read the key: {error.strerror}") from error
    if mode & 0o077:
        raise ConfigurationError(
            f"{path}: the key has mode {mode:04o}, so others than its owner can use it; it must be 0600 "
            f"(chmod 600 {path}), and if others could read it, replace it"
        )
    if len(key) < MINIMUM_KEY_BYTES:
        raise ConfigurationError(
            f"{path}: the key has {len(key)} bytes; at least {MINIMUM_KEY_BYTES} are needed"
        )
    return key


def make_key(path: str) -> bytes:
    """The key at `path`, made (mode 0600) if there is none. Two makers at once end with the same key."""
    if not os.path.exists(path):
        key = secrets.token_hex(MINIMUM_KEY_BYTES).encode()
        temporary = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(key + b"\n")
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, never replaces the key of one who was quicker.
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(temporary)
    return load_key(path)


# --- signing ---------------------------------------------------------------------------------------------


def user_token(
    key: bytes, cluster: str, user_id: int, group_id: int, user_name: str, lifetime_s: float = 120.0
) -> str:
    """A person's credential for the controller."""
    return _sign(key, cluster, "user", lifetime_s, sub=str(user_id), gid=group_id, name=user_name)


def node_token(key: bytes, cluster: str, node: str, lifetime_s: float = 120.0) -> str:
    """A node daemon's credential for the controller."""
    return _sign(key, cluster, "node", lifetime_s, sub=node)


def step_token(key: bytes, cluster: str, step: StepCredential, lifetime_s: float = 120.0) -> str:
    """srun's credential for the nodes of one step; the controller puts it into the StepGrant."""
    claims = {"job": step.job_id, "run": step.run, "step": step.step_id}
    return _sign(key, cluster, "step", lifetime_s, sub=str(step.user_id), **claims)


def _sign(key: bytes, cluster: str, kind: str, lifetime_s: float, **claims: str | int) -> str:
    now = time.time()
    payload = {"aud": cluster, "kind": kind, "iat": int(now), "exp": now + lifetime_s, **claims}
    signed = _HEADER + b"." + _encode(json.dumps(payload, separators=(",", ":")).encode())
    return (signed + b"." + _encode(hmac.new(key, signed, hashlib.sha256).digest())).decode()


def _encode(data: bytes) -> bytes:
    """base64url without padding (RFC 7515, 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


_HEADER = _encode(b'{"alg":"HS256","typ":"JWT"}')


# --- verifying -------------------------------------------------------------------------------------------


class Verifier:
    """Checks tokens of one cluster. A token that was found good is remembered until it expires."""

    def __init__(
        self, key: bytes, cluster: str, *, clock_skew_s: float = CLOCK_SKEW_S, cache_size: int = 4096
    ) -> None:
        self._key = key
        self._cluster = cluster
        self._clock_skew_s = clock_skew_s
        self._cache_size = cache_size
        self._known: dict[str, tuple[float, Caller | StepCredential]] = {}

    def verify_caller(self, token: str) -> Caller:
        """A person, or a node daemon (`Caller.node`). Raises AccessDenied."""
        found = self._verify(token)
        if not isinstance(found, Caller):
            raise AccessDenied("the credential is one for a step")
        return found

    def verify_user(self, token: str) -> Caller:
        """A person. Raises AccessDenied."""
        caller = self.verify_caller(token)
        if caller.node:
            raise AccessDenied("the credential is a node's")
        return caller

    def verify_node(self, token: str) -> str:
        """A node daemon's name. Raises AccessDenied."""
        caller = self.verify_caller(token)
        if not caller.node:
            raise AccessDenied("the credential is not a node's")
        return caller.node

    def verify_step(self, token: str) -> StepCredential:
        """Raises AccessDenied."""
        found = self._verify(token)
        if not isinstance(found, StepCredential):
            raise AccessDenied("the credential is not one for a step")
        return found

    def _verify(self, token: str) -> Caller | StepCredential:
        now = time.time()
        known = self._known.get(token)
        if known is not None and now < known[0]:
            return known[1]
        claims = self._claims(token)
        found = _meaning(claims)
        self._remember(token, float(claims["exp"]) + self._clock_skew_s, found, now)
        return found

    def _claims(self, token: str) -> dict[str, Any]:
        import jwt

        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key,
                algorithms=["HS256"],
                audience=self._cluster,
                leeway=self._clock_skew_s,
                options={"require": ["exp", "iat", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise AccessDenied("the credential has expired") from error
        except jwt.ImmatureSignatureError as error:
            raise AccessDenied("the credential is from the future: the hosts' clocks differ") from error
        except jwt.InvalidAudienceError as error:
            raise AccessDenied(f"the credential is not for cluster {self._cluster}") from error
        except (jwt.InvalidTokenError, ValueError) as error:
            raise AccessDenied(f"the credential is not valid: {error}") from error
        return claims

    def _remember(self, token: str, until: float, found: Caller | StepCredential, now: float) -> None:
        if len(self._known) >= self._cache_size:
            self._known = {key: value for key, value in self._known.items() if now < value[0]}
            # Oldest first: a dict keeps the order of insertion.
            for key in list(self._known)[: len(self._known) - self._cache_size // 2]:
                del self._known[key]
        self._known[token] = (until, found)


def _meaning(claims: dict[str, Any]) -> Caller | StepCredential:
    """What verified claims say. Raises AccessDenied where a claim is missing or of an unknown kind."""
    try:
        match claims.get("kind"):
            case "user":
                return Caller(int(claims["sub"]), int(claims["gid"]), str(claims["name"]))
            case "node" if claims["sub"]:
                return Caller(NODE_USER_ID, NODE_USER_ID, "", str(claims["sub"]))
            case "step":
                return StepCredential(
                    int(claims["job"]), int(claims["run"]), int(claims["step"]), int(claims["sub"])
                )
            case _:
                raise AccessDenied("the credential is of an unknown kind")
    except (KeyError, ValueError, TypeError) as error:
        raise AccessDenied("the credential lacks a claim") from error


# --- what commands use -----------------------------------------------------------------------------------


def credential(configuration: Configuration) -> str:
    """A user token for whoever runs this process; one is used for half of its lifetime.

    Signed here where the key file is readable, else by the host's agent. Raises AccessDenied,
    ConfigurationError.
    """
    user_id = os.geteuid()
    place = (configuration.key_file, configuration.agent_socket, configuration.cluster.name, user_id)
    now = time.monotonic()
    held = _held_credentials.get(place)
    if held is not None and now < held[0]:
        return held[1]
    token = _new_credential(configuration, user_id)
    _held_credentials.clear()
    _held_credentials[place] = (now + configuration.auth.token_lifetime_s / 2, token)
    return token


_held_credentials: dict[tuple[str, str, str, int], tuple[float, str]] = {}


def _new_credential(configuration: Configuration, user_id: int) -> str:
    if os.access(configuration.key_file, os.R_OK, effective_ids=True):
        return user_token(
            load_key(configuration.key_file),
            configuration.cluster.name,
            user_id,
            os.getegid(),
            user_name(user_id),
            configuration.auth.token_lifetime_s,
        )
    from minislurm.rpc import agent

    try:
        return agent.request_token(configuration.agent_socket)
    except OSError as error:
        raise AccessDenied(
            f"no credential: the key {configuration.key_file} is not readable for this user, and no agent "
            f"answers at {configuration.agent_socket} ({error.strerror or error})"
        ) from error


def user_name(user_id: int) -> str:
    """The user's login name; the number where the host knows none."""
    import pwd

    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def authorization(token: str) -> tuple[str, str]:
    """The gRPC metadata entry that carries a token."""
    return METADATA_KEY, f"Bearer {token}"


def token_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The token in a call's metadata. Raises AccessDenied where there is none."""
    for name, value in metadata or ():
        if name == METADATA_KEY and isinstance(value, str) and value.startswith("Bearer "):
            return value[len("Bearer ") :]
    raise AccessDenied("the call carries no credential")
