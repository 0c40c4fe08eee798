"""scontrol's commands about reservations: create, update, delete, show; and the licenses."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from minislurm.cli.application import print_line
from minislurm.cli.printable import printable
from minislurm.cli.reservation_request import parse_change, parse_creation
from minislurm.cli.show_reservation import license_text, reservation_text
from minislurm.domain.errors import AccessDenied, ControllerUnavailable, Refusal, UsageError

if TYPE_CHECKING:
    from minislurm.rpc.client import ControllerClient


def create(words: Sequence[str]) -> int:
    """``reservation ReservationName=… StartTime=… …``; the first word says what is made."""
    entity, equals, name = words[0].partition("=") if words else ("", "", "")
    if not _is_reservation(entity):
        raise UsageError(f"Invalid creation entity: {printable(' '.join(words[:1]))}", prefix=False)
    first = [f"ReservationName={name}"] if equals else []
    changes = parse_creation([*first, *words[1:]], time.time())

    def act(client: ControllerClient) -> None:
        print(f"Reservation created: {printable(client.create_reservation(changes))}")

    return _act(act, "Error creating the reservation")


def update(words: Sequence[str]) -> int:
    changes = parse_change(words, time.time())

    def act(client: ControllerClient) -> None:
        client.update_reservation(changes)
        print("Reservation updated.")

    return _act(act, "Error updating the reservation", "slurm_update error")


def delete(words: Sequence[str]) -> int:
    """``ReservationName=a``, ``reservation=a`` or ``reservation a``."""
    if not words:
        raise UsageError("too few arguments for delete keyword", prefix=False)
    entity, equals, name = words[0].partition("=")
    if not equals and len(words) > 1:
        name = words[1]
    if not _is_reservation(entity) or not name:
        raise UsageError(f"Invalid deletion entity: {printable(words[0])}", prefix=False)
    return _act(lambda client: client.delete_reservation(name), f"delete_reservation {printable(words[0])}")


def names_reservation(words: Sequence[str]) -> bool:
    """Is ``scontrol update …`` about a reservation, and not about a job's?"""
    keys = [word.partition("=")[0].lower() for word in words]
    is_job = any(len(key) > 2 and ("jobid".startswith(key) or "jobname".startswith(key)) for key in keys)
    return not is_job and any(_is_reservation(key) for key in keys)


def show_reservations(client: ControllerClient, name: str | None, *, one_line: bool) -> int:
    views = [view for view in client.list_reservations() if name in (None, view.reservation.name)]
    if not views:
        print("No reservations in the system" if name is None else f"Reservation {printable(name)} not found")
        return 0 if name is None else 1
    sys.stdout.write("".join(reservation_text(view, one_line=one_line) for view in views))
    return 0


def show_licenses(client: ControllerClient, name: str | None, *, one_line: bool) -> int:
    views = [view for view in client.list_licenses() if name in (None, view.name)]
    if not views and name is None:
        print("No licenses configured in Slurm.")
    sys.stdout.write("".join(license_text(view, one_line=one_line) for view in views))
    return 0


def _is_reservation(word: str) -> bool:
    return len(word) > 2 and "reservationname".startswith(word.lower())


def _act(act: Callable[[ControllerClient], None], *contexts: str) -> int:
    from minislurm.cli.connection import connect

    with connect() as client:
        try:
            act(client)
        except (Refusal, AccessDenied, ControllerUnavailable) as error:
            for line in error.details if isinstance(error, Refusal) else ():
                print_line(line)
            for context in contexts:
                print_line(f"{context}: {error}")
            return 1
    return 0
