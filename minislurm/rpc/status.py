"""Errors over gRPC, both ways: the one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import grpc

from minislurm.domain.errors import AccessDenied, ControllerUnavailable, MinislurmError, Refusal, RefusalCode
from minislurm.rpc.gen import controller_pb2

REFUSED_KEY = "minislurm-refused-bin"
_BEARER = "Bearer "


def bearer_token(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The credential of a call's metadata; "" for none."""
    for key, value in metadata or ():
        if key == "authorization" and isinstance(value, str) and value.startswith(_BEARER):
            return value[len(_BEARER) :]
    return ""


def bearer_metadata(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", _BEARER + token),)


def refused_message(refusal: Refusal) -> controller_pb2.Refused:
    return controller_pb2.Refused(
        code=refusal.code.name, details=list(refusal.details), job_id=refusal.job_id
    )


def refusal_of(message: Any) -> Refusal:
    code = RefusalCode.__members__.get(message.code, RefusalCode.NOT_SUPPORTED)
    return Refusal(code, details=tuple(message.details), job_id=message.job_id)


async def abort(context: Any, error: MinislurmError) -> NoReturn:
    """Ends a call of the server with the error's status."""
    if isinstance(error, Refusal):
        denied = error.code is RefusalCode.ACCESS
        trailing = ((REFUSED_KEY, refused_message(error).SerializeToString()),)
        code = grpc.StatusCode.PERMISSION_DENIED if denied else grpc.StatusCode.FAILED_PRECONDITION
        await context.abort(code, str(error), trailing)
    if isinstance(error, AccessDenied):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
    await context.abort(grpc.StatusCode.INTERNAL, str(error))
    raise AssertionError("abort raises")


def error_of(error: grpc.RpcError) -> MinislurmError:
    """What a failed call of the client means."""
    call: Any = error
    code = call.code()
    for key, value in call.trailing_metadata() or ():
        if key == REFUSED_KEY:
            return refusal_of(controller_pb2.Refused.FromString(value))
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return AccessDenied(f"Invalid credential: {call.details()}")
    if code is grpc.StatusCode.UNAVAILABLE:
        return ControllerUnavailable()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return ControllerUnavailable("Unable to contact slurm controller (no answer in time)")
    return MinislurmError(f"the controller failed: {call.details()}")
