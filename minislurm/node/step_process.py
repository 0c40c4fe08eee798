"""One step on this node, seen from the daemon: the link to its shepherd, and who listens to its tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from minislurm.domain.ids import BATCH_STEP, StepId
from minislurm.node import frames
from minislurm.node.messages import EndStep, Event, RunKey, SignalStep, StepClean, StepExited, StepStarted
from minislurm.node.run_files import exit_from_json
from minislurm.node.shepherd_link import ShepherdLink

log = logging.getLogger(__name__)


class Listener(Protocol):
    """srun's stream. Messages are numbered; each is acknowledged when srun has it."""

    def on_output(self, number: int, task: int, is_error: bool, data: bytes, end: bool) -> None: ...

    def on_message(self, number: int, message: dict[str, Any]) -> None: ...

    def on_input_taken(self, count: int) -> None: ...

    def on_lost(self) -> None:
        """The shepherd is gone; no more will come."""


class StepProcess:
    def __init__(
        self,
        key: RunKey,
        step_id: StepId,
        link: ShepherdLink,
        *,
        on_event: Callable[[Event], None],
        on_closed: Callable[[StepProcess], None],
        on_free: Callable[[StepProcess, ShepherdLink], None],
        adopted: bool = False,
        client_grace_s: float = 10.0,
    ) -> None:
        """`client_grace_s`: so long an adopted step waits for its srun to come back."""
        self.key = key
        self.step_id = step_id
        self.listener: Listener | None = None
        #: The shepherd has begun, as far as it could say so.
        self.begun = adopted
        #: Of the tasks; each leads a session.
        self.pids: list[int] = []
        self.ended = False
        self.clean = False
        self._client_grace_s = client_grace_s
        self._waiting_for_srun: asyncio.TimerHandle | None = None
        self._on_event = on_event
        self._on_closed = on_closed
        self._on_free = on_free
        self._link = link
        link.receiver = self

    def __str__(self) -> str:
        return f"{self.key}.{'batch' if self.step_id == BATCH_STEP else self.step_id}"

    # --- to the shepherd ---------------------------------------------------------------------------------

    def signal(self, action: SignalStep) -> None:
        self._link.tell(
            {
                "signal": action.signal,
                "to": action.to,
                "continue_first": action.continue_first,
                "message": action.message,
            }
        )

    def send_signal(self, number: int) -> None:
        """From srun: to all processes of the step."""
        self._link.tell({"signal": number, "to": "all"})

    def end(self, action: EndStep) -> None:
        self._link.tell({"end": {"kill": action.kill, "wait_s": action.wait_s, "message": action.message}})

    def kill(self) -> None:
        self._link.tell({"end": {"kill": True, "wait_s": 0.0, "message": ""}})

    def listen(self, listener: Listener, received: int | None) -> None:
        """srun is there; `received`: it is back after a restart of the daemon, and has so much already."""
        self.listener = listener
        if self._waiting_for_srun is not None:
            self._waiting_for_srun.cancel()
            self._waiting_for_srun = None
        if received is not None:
            self._link.tell({"attach": received})

    def give_input(self, task: int | None, data: bytes, end: bool) -> None:
        self._link.give_input(frames.ALL_TASKS if task is None else task, data, end)

    def acknowledge(self, number: int) -> None:
        self._link.tell({"acknowledge": number})

    def forget(self) -> None:
        """Nobody will ask for what srun has not fetched."""
        self._link.tell({"forget": True})

    def close(self) -> None:
        if self._waiting_for_srun is not None:
            self._waiting_for_srun.cancel()
        self._link.close()

    # --- from the shepherd -------------------------------------------------------------------------------

    def on_control(self, message: dict[str, Any]) -> None:
        if "srun" in message:
            self._on_srun(message["srun"])
        elif "started" in message and message["started"] is not None:
            self.begun = True
            self.pids = message["started"]["pids"]
            self._on_event(StepStarted(self.key, self.step_id, message["started"]["time"]))
        if "hello" in message:
            self._on_hello(message)
        elif "ended" in message:
            self._on_ended(message)
        elif "clean" in message:
            self._on_clean()
        elif "input_taken" in message and self.listener is not None:
            self.listener.on_input_taken(message["input_taken"])
        if message.get("free"):
            self._on_free(self, self._link)

    def on_output(self, payload: bytes) -> None:
        number, task, flags = frames.OUTPUT_HEADER.unpack_from(payload)
        if self.listener is None:
            self.acknowledge(number)
            return
        data = payload[frames.OUTPUT_HEADER.size :]
        is_error, end = bool(flags & frames.FLAG_ERROR), bool(flags & frames.FLAG_END)
        self.listener.on_output(number, task, is_error, data, end)

    def on_closed(self) -> None:
        if self.listener is not None:
            self.listener.on_lost()
        self._on_closed(self)

    def _on_srun(self, message: dict[str, Any]) -> None:
        number = message["number"]
        if self.listener is None:
            self.acknowledge(number)
        else:
            self.listener.on_message(number, message)

    def _on_hello(self, message: dict[str, Any]) -> None:
        """Of an adopted step: where things stand."""
        self.pids = message["hello"]["pids"]
        if message["hello"]["time"]:
            self._on_event(StepStarted(self.key, self.step_id, message["hello"]["time"]))
        if message["ended"] is not None:
            self._on_ended(message)
        if self.step_id == BATCH_STEP:
            return
        # srun's stream went through the daemon that is gone. It may come back; all is kept until then.
        self._waiting_for_srun = asyncio.get_running_loop().call_later(
            self._client_grace_s, self._srun_is_gone, message["kill_on_disconnect"]
        )

    def _srun_is_gone(self, kill: bool) -> None:
        self._waiting_for_srun = None
        self._link.tell({"attach": 0})
        if kill and not self.ended:
            log.warning("step %s: its srun did not come back after the daemon's restart; killing it", self)
            self.kill()

    def _on_ended(self, message: dict[str, Any]) -> None:
        self.ended = True
        self.clean = message["clean"]
        ended = exit_from_json(message["ended"])
        if ended.launch_failed:
            log.info("step %s did not start: %s", self, ended.reason)
        self._on_event(StepExited(self.key, self.step_id, ended, clean=self.clean))

    def _on_clean(self) -> None:
        self.clean = True
        self._on_event(StepClean(self.key, self.step_id))
