"""A node's state in Slurm's many spellings: ``MIXED+DRAIN`` is drng, draining, allocated+drain."""

from __future__ import annotations

from msgspec import Struct

from minislurm.domain.views import NodeView

#: Slurm's numbers of the base states: sinfo sorts by them.
_BASE_NUMBER = {"UNKNOWN": 0, "DOWN": 1, "IDLE": 2, "ALLOCATED": 3, "MIXED": 5}
_DRAIN_FLAG, _COMPLETING_FLAG, _NO_RESPOND_FLAG = 0x200, 0x400, 0x800
_COMPACT = {
    "unknown": "unk",
    "down": "down",
    "idle": "idle",
    "allocated": "alloc",
    "allocated+": "alloc+",
    "mixed": "mix",
    "completing": "comp",
    "drained": "drain",
    "maint": "maint",
    "reserved": "resv",
    "draining": "drng",
}


class NodeStateText(Struct, frozen=True):
    base: str
    drain: bool
    completing: bool
    responding: bool
    #: A reservation holds it now; one for maintenance.
    reserved: bool = False
    maintenance: bool = False

    @property
    def is_busy(self) -> bool:
        return self.base in ("ALLOCATED", "MIXED") or self.completing

    @property
    def long(self) -> str:
        """sinfo's %T: draining, idle*, allocated+."""
        return self._name() + ("" if self.responding else "*")

    @property
    def compact(self) -> str:
        """sinfo's %t: drng, idle*, alloc+."""
        return _COMPACT[self._name()] + ("" if self.responding else "*")

    @property
    def complete(self) -> str:
        """With every flag: idle+drain."""
        flags = [
            ("drain", self.drain),
            ("maint", self.maintenance),
            ("reserved", self.reserved),
            ("completing", self.completing),
            ("not_responding", not self.responding),
        ]
        return "+".join([self.base.lower(), *(name for name, is_set in flags if is_set)])

    @property
    def record(self) -> str:
        """scontrol's State=: IDLE*+DRAIN."""
        flags = [
            ("DRAIN", self.drain),
            ("COMPLETING", self.completing),
            ("MAINTENANCE", self.maintenance),
            ("RESERVED", self.reserved),
        ]
        base = self.base + ("" if self.responding else "*")
        return "+".join([base, *(name for name, is_set in flags if is_set)])

    @property
    def number(self) -> int:
        """Sort key of sinfo."""
        return (
            _BASE_NUMBER.get(self.base, 0)
            + (_DRAIN_FLAG if self.drain else 0)
            + (_COMPLETING_FLAG if self.completing else 0)
            + (0 if self.responding else _NO_RESPOND_FLAG)
        )

    @property
    def share(self) -> str:
        """Which of sinfo's A/I/O the node counts for: "alloc", "idle" or "other"."""
        if self.base == "ALLOCATED" or self.base == "MIXED" or self.completing:
            return "alloc"
        return "idle" if self.base == "IDLE" and not self.drain else "other"

    @property
    def cpus_lost(self) -> bool:
        """CPUs that no job holds count as "other", not as idle."""
        return self.drain or self.base in ("DOWN", "UNKNOWN")

    def _name(self) -> str:
        if self.drain:
            return "draining" if self.is_busy else "drained"
        if self.base == "ALLOCATED" and self.completing:
            return "allocated+"
        if self.completing and self.base == "IDLE":
            return "completing"
        if self.base == "IDLE" and (self.maintenance or self.reserved):
            return "maint" if self.maintenance else "reserved"
        return self.base.lower()


def node_state(view: NodeView) -> NodeStateText:
    """From `view.state`: a base state, ``+DRAIN``, ``+COMPLETING``, "*" for a node that does not answer."""
    text = view.state
    base, *flags = text.replace("*", "").upper().split("+")
    completing = view.completing or "COMPLETING" in flags
    if base == "COMPLETING":
        base, completing = "IDLE", True
    maintenance = "MAINTENANCE" in flags
    reserved = maintenance or "RESERVED" in flags
    return NodeStateText(base, "DRAIN" in flags, completing, "*" not in text, reserved, maintenance)


#: What sinfo -t takes; those that no node of ours is ever in match nothing.
_FOREIGN_STATES = frozenset({
    "cloud", "fail", "future", "futr", "npc", "perfctrs", "planned", "power_down", "powering_down",
    "powered_down", "powering_up", "reboot", "reboot^", "reboot_issued", "reboot_requested",
})  # fmt: skip


def matches_state(state: NodeStateText, name: str) -> bool:
    """Does the node pass ``sinfo -t name``? Raises ValueError for an unknown name."""
    match name.lower():
        case "alloc" | "allocated":
            return state.base in ("ALLOCATED", "MIXED")
        case "mix" | "mixed":
            return state.base == "MIXED"
        case "idle":
            return state.base == "IDLE"
        case "down":
            return state.base == "DOWN"
        case "unk" | "unknown":
            return state.base == "UNKNOWN"
        case "drain":
            return state.drain
        case "drained":
            return state.drain and not state.is_busy
        case "drng" | "draining":
            return state.drain and state.is_busy
        case "comp" | "completing":
            return state.completing
        case "maint":
            return state.maintenance
        case "resv" | "reserved":
            return state.reserved
        case "no_respond":
            return not state.responding
        case lowered if lowered in _FOREIGN_STATES:
            return False
    raise ValueError(f'Bad state string: "{name}"')
