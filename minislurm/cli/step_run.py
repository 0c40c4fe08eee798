"""A step from srun's side, from launch to the last task's end: output, input, signals, when to give up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from minislurm.cli.step_exit import Ending, StepExit, ranges
from minislurm.cli.step_io import StreamWriter, TaskOutputs, forward_input
from minislurm.domain.views import StepGrant

if TYPE_CHECKING:
    from minislurm.rpc.step_client import NodeLost, StepClient, StepEvent, StepLaunch

#: Ends of tasks that come within this time share a message.
_GATHER_S = 0.02
#: Between the INT and the KILL of a double Ctrl-C, and between a closed pipe and the KILL of who ignores it.
_GRACE_S = 1.0
#: Two Ctrl-C within this time abort.
_DOUBLE_INTERRUPT_S = 1.0
_FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class StepSettings(Struct, frozen=True):
    """What the options of srun say about a running step."""

    kill_on_bad_exit: bool = False
    #: After the first task's end the others are killed after so long; 0: never.
    wait_s: float = 0.0
    kill_wait_s: float = 30.0
    #: A node whose stream breaks may come back for so long.
    client_grace_s: float = 0.0
    quiet: bool = False
    verbosity: int = 0


class StepInput(Struct, frozen=True):
    """What srun reads for the tasks. `descriptor` None: nothing, the nodes see to it."""

    descriptor: int | None = None
    #: The one task that gets it; the others get end of file.
    only_task: int | None = None


class StepRun:
    """Runs one step. `say` of others goes through `tell`, so that lines are not torn."""

    def __init__(
        self,
        grant: StepGrant,
        launch: StepLaunch,
        output: TaskOutputs,
        errors: TaskOutputs,
        input_: StepInput,
        settings: StepSettings,
        *,
        standard_error: StreamWriter | None = None,
        end_step: Callable[[], Awaitable[bool]] | None = None,
        refresh: Callable[[], Awaitable[StepGrant | None]] | None = None,
    ) -> None:
        """`end_step` asks the controller to end the step; False: it cannot be asked. `refresh` asks for the
        grant again, after a node's daemon was restarted."""
        self._grant = grant
        self._refresh = refresh
        self._end_step = end_step
        self._launch = launch
        self._output = output
        self._errors = errors
        self._input = input_
        self._settings = settings
        self._standard_error = standard_error or StreamWriter(2)
        self._name = f"{grant.job_id}.{grant.step_id}"
        self._nodes = {node.node: node for node in grant.nodes}
        self.exit = StepExit(tuple(task for node in grant.nodes for task in node.tasks))
        self._telling: set[asyncio.Future[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._gathering = False
        self._waiting_for_others = False
        self._terminating = False
        self._aborted = False
        self._last_interrupt = -_DOUBLE_INTERRUPT_S
        self._reader_gone_at: float | None = None

    async def run(self) -> StepExit:
        """Returns when every task has ended or was given up."""
        from minislurm.rpc.step_client import StepClient

        self._loop = asyncio.get_running_loop()
        self._client: StepClient = StepClient(
            self._grant,
            self._launch,
            self._handle,
            refresh=self._refresh,
            grace_s=self._settings.client_grace_s,
        )
        self._set_handlers()
        try:
            self._say_launch()
            self._start_input()
            await self._client.run()
            await self._output.finish()
            await self._errors.finish()
        finally:
            for timer in self._timers:
                timer.cancel()
            self._remove_handlers()
        self.exit.lose(self.exit.tasks)
        self._say_endings()
        if self.exit.was_forced and not self._aborted:
            self.tell(f"srun: Force Terminated StepId={self._name}")
        await asyncio.gather(*self._telling)
        return self.exit

    def inform(self, text: str) -> None:
        """A line of srun's own that --quiet silences."""
        if not self._settings.quiet:
            self.tell(f"srun: {text}")

    def tell(self, line: str) -> None:
        """A line for standard error, after those told before."""
        data = (line + "\n").encode(errors="backslashreplace")
        writing = asyncio.ensure_future(self._standard_error.write(data))
        self._telling.add(writing)
        writing.add_done_callback(self._telling.discard)

    def job_is_ending(self) -> None:
        """The controller ends the job: the nodes end the tasks; srun waits for that, but not for ever."""
        self._abort()

    # Events of the nodes

    async def _handle(self, event: StepEvent) -> None:
        from minislurm.rpc import step_client as steps

        if isinstance(event, steps.TaskOutput):
            target = self._errors if event.is_error else self._output
            await target.write(event.task, event.data, event.end)
            if target.writer.is_closed and event.data:
                self._reader_has_gone()
        elif isinstance(event, steps.TaskEnded):
            ending = Ending(event.exit_code, event.exit_signal, event.core_dumped)
            self.exit.note(event.node, event.task, ending)
            self._one_ended(ending)
        elif isinstance(event, steps.NodeLine):
            self.tell(event.text)
        elif isinstance(event, steps.NodeLost):
            self._lost(event)
        elif isinstance(event, steps.TasksStarted):
            if self._settings.verbosity:
                self.inform(f"Node {event.node}, {len(event.process_ids)} tasks started")
        else:
            self.exit.lose(self._nodes[event.node].tasks)

    def _one_ended(self, ending: Ending) -> None:
        if not self._gathering and (self._settings.verbosity or not ending.is_normal):
            self._gathering = True
            self._later(_GATHER_S, self._say_endings)
        if not self.exit.running:
            return
        if self._settings.kill_on_bad_exit and not ending.is_normal and not self._terminating:
            self._terminate()
        if self._settings.wait_s and not self._waiting_for_others:
            self._waiting_for_others = True
            self._later(self._settings.wait_s, self._waited_enough)

    def _say_endings(self) -> None:
        self._gathering = False
        for message in self.exit.messages(verbose=self._settings.verbosity > 0):
            self.tell(f"srun: {message}" if message.endswith(": Completed") else f"srun: error: {message}")

    def _lost(self, event: NodeLost) -> None:
        """As Slurm without --no-kill: what is left of a step that lost a node is ended."""
        self.exit.lose(self._nodes[event.node].tasks)
        if event.started:
            self.tell(f"srun: error: Node failure on {event.node}: {event.message}")
        else:
            where = f"StepId={self._name} failed on node {event.node}"
            self.tell(f"srun: error: Task launch for {where}: {event.message}")
            self.tell(f"srun: error: Application launch failed: {event.message}")
        if self.exit.running and not self._aborted:
            self._abort()
            self._kill()

    def _waited_enough(self) -> None:
        if self.exit.running:
            self.inform(f"First task exited {self._settings.wait_s:g}s ago")
            self._say_states()
            self.inform(f"Terminating StepId={self._name}")
            self._abort()
            self._kill()

    def _terminate(self) -> None:
        """Another task ended badly (-K)."""
        self._terminating = True
        self.inform(f"Terminating StepId={self._name}")
        self._client.signal(signal.SIGCONT)
        self._client.signal(signal.SIGTERM)
        self._later(self._settings.kill_wait_s, self._kill)

    def _abort(self) -> None:
        """The step is being ended; from now on there is a deadline."""
        if self._aborted:
            return
        self._aborted = True
        patience = self._settings.kill_wait_s + 2
        self.inform(f"Job step aborted: Waiting up to {patience:g} seconds for job step to finish.")
        self._later(patience, self._give_up)

    def _kill(self) -> None:
        self._client.signal(signal.SIGKILL)

    def _give_up(self) -> None:
        self.tell("srun: error: Timed out waiting for job step to complete")
        self._client.abandon()

    def _reader_has_gone(self) -> None:
        """Nobody reads what the tasks write: as in a pipe of one host they get SIGPIPE. Those that go on
        writing all the same would do so for ever, and are killed."""
        now = self._loop.time()
        if self._reader_gone_at is None:
            self._reader_gone_at = now
            self._client.signal(signal.SIGPIPE)
        elif now - self._reader_gone_at > _GRACE_S and not self._aborted:
            self._abort()
            self._kill()

    # Signals to srun

    def _set_handlers(self) -> None:
        """Signals that whoever started srun ignores (nohup, a script's background) stay ignored."""
        handlers: dict[signal.Signals, Callable[[], None]] = {signal.SIGINT: self._interrupted}
        for number in _ENDING:
            handlers[number] = self._told_to_end
        self._handled = []
        for number, handler in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._loop.add_signal_handler(number, handler)
                self._handled.append(number)
        for number in _FORWARDED:
            self._loop.add_signal_handler(number, self._client.signal, number)
            self._handled.append(number)

    def _remove_handlers(self) -> None:
        for number in self._handled:
            self._loop.remove_signal_handler(number)

    def _interrupted(self) -> None:
        now = self._loop.time()
        if self._aborted:
            self._kill()
        elif now - self._last_interrupt <= _DOUBLE_INTERRUPT_S:
            self.inform(f"sending Ctrl-C to StepId={self._name}")
            self.inform("forcing job termination")
            self._abort()
            self._client.signal(signal.SIGINT)
            self._later(_GRACE_S, self._kill)
        else:
            self._last_interrupt = now
            self.tell("srun: interrupt (one more within 1 sec to abort)")
            self._say_states()

    def _told_to_end(self) -> None:
        """The controller kills the step, unless the whole job is ending: then srun was told because
        everything in it was, and the tasks have the same time to save their work as everybody."""
        self.inform("forcing job termination")
        if not self._aborted:
            self._abort()
            self._ending = asyncio.ensure_future(self._end_by_controller())

    async def _end_by_controller(self) -> None:
        if self._end_step is None or not await self._end_step():
            self._kill()

    def _say_launch(self) -> None:
        if self._settings.verbosity:
            for node in self._grant.nodes:
                count, tasks = len(node.tasks), ranges(node.tasks)
                self.inform(f"launching StepId={self._name} on host {node.node}, {count} tasks: {tasks}")

    def _say_states(self) -> None:
        for line in self.exit.state_lines(self._name):
            self.tell(f"srun: {line}")

    # Input

    def _start_input(self) -> None:
        if self._input.descriptor is None:
            return
        forward_input(self._input.descriptor, self._send_input, self._end_input)
        if self._input.only_task is not None:
            self._ending_inputs = asyncio.ensure_future(self._end_other_inputs(self._input.only_task))

    async def _end_other_inputs(self, but: int) -> None:
        for task in self.exit.tasks:
            if task != but:
                await self._client.end_input(task)

    async def _send_input(self, data: bytes) -> None:
        await self._client.send_input(data, self._input.only_task)

    async def _end_input(self) -> None:
        await self._client.end_input(self._input.only_task)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._timers.add(self._loop.call_later(seconds, act))


def open_output(path: str, *, append: bool, mode: int) -> int:
    """A file that srun itself collects the tasks' output in. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else os.O_TRUNC)
    return os.open(path, flags, mode)
