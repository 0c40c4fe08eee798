"""The calls about reservations and licenses."""

from __future__ import annotations

import asyncio
import pwd
import time
from collections.abc import Sequence
from typing import Any

from minislurm.cluster.licenses import total_licenses
from minislurm.cluster.messages import Caller, CreateReservation, DeleteReservation, UpdateReservation
from minislurm.cluster.reservations import made_by
from minislurm.cluster.state import ClusterState
from minislurm.controller.engine import Engine
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.reservation import Reservation
from minislurm.domain.views import LicenseView, ReservationChanges, ReservationView
from minislurm.rpc import codec
from minislurm.rpc.gen import controller_pb2


async def create(engine: Engine, request: Any, caller: Caller) -> Any:
    """Asked again with the same request id it answers with what it made then."""
    if not request.request_id:
        raise Refusal(RefusalCode.NOT_SUPPORTED, details=("a new reservation needs a request id",))
    changes = codec.from_proto(ReservationChanges, request.changes)
    await asyncio.to_thread(_check_users, changes)
    await engine.act(CreateReservation(changes, caller, request.request_id))
    made = made_by(engine.state, request.request_id)
    return controller_pb2.ReservationReply(name=made.name if made is not None else changes.name)


async def update(engine: Engine, request: Any, caller: Caller) -> Any:
    changes = codec.from_proto(ReservationChanges, request.changes)
    await asyncio.to_thread(_check_users, changes)
    await engine.act(UpdateReservation(changes, caller))
    return controller_pb2.ReservationReply(name=changes.name)


async def delete(engine: Engine, request: Any, caller: Caller) -> Any:
    await engine.act(DeleteReservation(request.name, caller))
    return controller_pb2.ReservationReply(name=request.name)


def _check_users(changes: ReservationChanges) -> None:
    """A name that is no user of this host is a mistake. May take its time: names can come from afar."""
    names: Sequence[str] = ()
    if changes.users is not None and changes.users.operator != "-":
        names = changes.users.items
    for name in names:
        try:
            pwd.getpwnam(name)
        except KeyError as error:
            raise Refusal(RefusalCode.INVALID_USER, details=(f"no such user: {name}",)) from error


def listed_reservations(state: ClusterState) -> Any:
    now = time.time()
    reply = controller_pb2.ReservationsReply()
    for reservation in sorted(state.reservations.values(), key=lambda r: (r.start_time, r.name)):
        codec.fill(reply.reservations.add(), _view(state, reservation, now))
    return reply


def _view(state: ClusterState, reservation: Reservation, now: float) -> ReservationView:
    cpus = sum(state.nodes[name].cpus for name in reservation.nodes if name in state.nodes)
    return ReservationView(reservation, reservation.is_active(now), cpus)


def listed_licenses(state: ClusterState) -> Any:
    reply = controller_pb2.LicensesReply()
    for name, total in sorted(total_licenses(state).items()):
        codec.fill(reply.licenses.add(), LicenseView(name, total, state.licenses_used.get(name, 0)))
    return reply
