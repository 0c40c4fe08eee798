"""`scontrol show reservation`, `scontrol show license` and `sinfo -T`."""

from __future__ import annotations

from collections.abc import Sequence

from minislurm.cli.printable import printable
from minislurm.cli.record import record_text
from minislurm.cli.resource_text import NULL
from minislurm.domain.hostlist import compress, natural_key
from minislurm.domain.times import format_duration_long, format_time
from minislurm.domain.views import LicenseView, ReservationView


def reservation_text(view: ReservationView, *, one_line: bool = False) -> str:
    reservation = view.reservation
    flags = ",".join(flag.value for flag in reservation.flags)
    lines = [
        f"ReservationName={reservation.name} StartTime={format_time(reservation.start_time)} "
        f"EndTime={format_time(reservation.end_time)} Duration={_duration(view)}",
        f"Nodes={_nodes(view)} NodeCnt={len(reservation.nodes)} CoreCnt={view.cpus} Features={NULL} "
        f"PartitionName={reservation.partition or NULL} Flags={flags}",
        f"TRES=cpu={view.cpus}",
        f"Users={','.join(reservation.users) or NULL} Groups={NULL} "
        f"Accounts={','.join(reservation.accounts) or NULL} Licenses={NULL} State={_state(view)} "
        f"BurstBuffer={NULL} Watts=n/a",
        f"MaxStartDelay={NULL}",
    ]
    return record_text(lines, one_line=one_line)


def reservation_lines(views: Sequence[ReservationView], *, header: bool = True) -> list[str]:
    """sinfo -T."""
    if not views:
        return ["No reservations in the system"]
    rows = [
        (
            printable(view.reservation.name),
            _state(view),
            format_time(view.reservation.start_time),
            format_time(view.reservation.end_time),
            _duration(view),
            _nodes(view),
        )
        for view in views
    ]
    if header:
        rows.insert(0, ("RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST"))
    width = max(9, *(len(row[0]) for row in rows))
    return [f"{n:<{width}}  {s:>8}  {b:>19}  {e:>19}  {d:>11}  {nodes}" for n, s, b, e, d, nodes in rows]


def license_text(view: LicenseView, *, one_line: bool = False) -> str:
    separator = " " if one_line else "\n    "
    free = max(0, view.total - view.used)
    return (
        f"LicenseName={printable(view.name)}{separator}"
        f"Total={view.total} Used={view.used} Free={free} Reserved=0 Remote=no\n"
    )


def _duration(view: ReservationView) -> str:
    return format_duration_long(view.reservation.end_time - view.reservation.start_time)


def _nodes(view: ReservationView) -> str:
    return compress(sorted(view.reservation.nodes, key=natural_key))


def _state(view: ReservationView) -> str:
    return "ACTIVE" if view.active else "INACTIVE"
