"""The process that looks after one step on one node: the batch script, or the tasks of a step.

It is a child of the forker, not of the daemon, and outlives both. It starts the tasks, adopts whatever they
fork (child subreaper, control group), carries out signals and the end of the run, writes the true exit status
to disk before it tells anyone, and does not leave before nothing of the step is left. A daemon that was
restarted finds it by its socket in the run's spool directory.

Imported by the forker: standard library only, and nothing heavy.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import time

from minislurm.node import frames, lease, spool
from minislurm.node.relay import Relay
from minislurm.node.task_streams import TaskStreams
from minislurm.node.tasks import (
    LAUNCH_FAILED_SIGNAL,
    Files,
    LaunchError,
    Program,
    Task,
    as_root,
    as_user,
    prepare_groups,
)
from minislurm.node.tracking import CgroupTracker, DescendantTracker, catchers, send_signal, start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from minislurm.node.orders import ShepherdOrder

#: KILL is sent again to what is left, at first after this, then ever more rarely.
KILL_INTERVAL_S = 0.02
MAXIMUM_KILL_INTERVAL_S = 1.0
#: Output that srun has not fetched so long after the step ended is given up.
LINGER_S = 30.0
#: The start is told together with the end, if that comes so soon: half the messages for very short jobs.
START_DELAY_S = 0.004
#: struct ucred: pid, uid, gid.
_CREDENTIALS = struct.Struct("=iii")


class Shepherd:
    """`connection`: to the daemon, which sends the order for a step, and when that is over maybe another."""

    def __init__(self, connection: socket.socket) -> None:
        self._poll = select.poll()
        self._channel: frames.FrameSocket | None = None
        self._open_wakeup()
        self._open_listener()
        self._set_channel(connection)
        self._start_ticks = start_time(os.getpid())

    def run(self) -> None:
        """Returns when there is nothing more to do."""
        while (order := self._next_order()) is not None:
            self._begin(order)
            # What was said right after the order came with it.
            self._hear(self._received)
            while not self._advance():
                for descriptor, events in self._poll.poll(self._timeout_ms()):
                    self._handle(descriptor, events)
            self._close()
            if self._forgotten or not self._relay.is_empty:
                return  # with what nobody has fetched
            if not self._is_batch:  # otherwise it was said with the end
                self._tell({"free": True})

    def _next_order(self) -> ShepherdOrder | None:
        """None when the daemon has no more use for this process."""
        while self._channel is not None:
            select.select([self._channel.fileno()], [], [])
            try:
                received = self._channel.receive()
            except (EOFError, OSError):
                return None
            for i, (kind, payload) in enumerate(received):
                # What comes before is for the last step, which is over.
                if kind == frames.ORDER:
                    self._received = received[i + 1 :]
                    order: ShepherdOrder = json.loads(payload)
                    return order
        return None

    def _begin(self, order: ShepherdOrder) -> None:
        """Everything anew for this step."""
        self._order = order
        self._is_batch = order["step_id"] < 0
        self._tasks = [Task(task) for task in order["tasks"]]
        self._task_of_pid: dict[int, Task] = {}
        self._tracker = CgroupTracker(order["cgroup"]) if order["cgroup"] else DescendantTracker(os.getpid())
        self._relay = Relay()
        self._streams = TaskStreams(self._poll, self._relay)
        self._error_fd = -1
        self._start_time = 0.0
        #: What the daemon has not yet been told of the start, and when it must be (monotonic).
        self._started: dict[str, Any] | None = None
        self._tell_start_time = float("inf")
        self._end: dict[str, Any] | None = None
        self._childless = True
        self._clean = False
        self._done_posted = False
        self._forgotten = False
        #: While the run is being ended: when to KILL (monotonic); infinity: not ending.
        self._kill_time = float("inf")
        self._kill_interval_s = KILL_INTERVAL_S
        self._linger_until = float("inf")
        #: The node's lease is over, and with it the step; until then: when to look at it (monotonic).
        self._is_lost = False
        self._look_time = time.monotonic() if order["lease"] else float("inf")
        if not self._is_batch and self._channel is not None:
            self._relay.attach(self._channel, 0)
        self._write_state()
        try:
            self._start()
        except LaunchError as error:
            self._fail(str(error))

    def _close(self) -> None:
        os.close(self._log)
        if self._error_fd >= 0:
            os.close(self._error_fd)

    # --- starting ----------------------------------------------------------------------------------------

    def _open_wakeup(self) -> None:
        self._wakeup, wakeup_in = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(wakeup_in, False)
        signal.set_wakeup_fd(wakeup_in, warn_on_full_buffer=False)
        # Not SIG_IGN, which is Python's choice for the last two: a program inherits what is ignored.
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, _ignore)
        self._poll.register(self._wakeup, select.POLLIN)

    def _open_listener(self) -> None:
        """A name of the abstract namespace: no file to make and remove, no limit of 107 bytes for the spool's
        path. It cannot be guessed, and who connects is looked at (`_accept`)."""
        self._socket_name = f"minislurm/{os.getpid()}/{os.urandom(8).hex()}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self._socket_name)
        self._listener.listen(4)
        self._listener.setblocking(False)
        self._poll.register(self._listener.fileno(), select.POLLIN)

    def _write_state(self) -> None:
        self._log = spool.open_log(self._order["log"])
        self._record(
            "state",
            {
                "pid": os.getpid(),
                "start_ticks": self._start_ticks,
                "socket": self._socket_name,
                "cgroup": self._order["cgroup"],
            },
        )

    def _record(self, kind: str, value: dict[str, Any]) -> None:
        run = f"{self._order['job_id']}.{self._order['run']}"
        spool.append(self._log, {"run": run, "step": self._order["step_id"], kind: value})

    def _start(self) -> None:
        order = self._order
        group_descriptor = -1
        if order["cgroup"]:
            group_descriptor = _open_group(order["cgroup"])
        files = Files(order)
        work_dir = self._open_files(files)
        program = Program(order)
        for task in self._tasks:
            task.pid = program.start(task, work_dir, group_descriptor)
            self._task_of_pid[task.pid] = task
        self._start_time = time.time()
        self._childless = False
        if group_descriptor >= 0:
            os.close(group_descriptor)
        # The batch script's standard error stays open for our own messages.
        self._error_fd = self._tasks[0].stdio[2] if self._is_batch else -1
        files.close_parents_copies(self._tasks, keep=self._error_fd)
        for task in self._tasks:
            self._streams.add(task)
        pids = [task.pid for task in self._tasks]
        if not self._is_batch:
            self._relay.post({"started": pids})
        self._started = {"pids": pids, "time": self._start_time}
        self._tell_start_time = time.monotonic() + START_DELAY_S

    def _open_files(self, files: Files) -> str:
        """The directory that the tasks start in. Raises LaunchError."""
        order = self._order
        was_root = os.geteuid() == 0
        prepare_groups(order)
        as_user(order)
        old_umask = os.umask(0)
        try:
            work_dir = self._check_work_dir()
            for task in self._tasks:
                files.open_for(task)
        finally:
            os.umask(old_umask)
            as_root(was_root)
        return work_dir

    def _check_work_dir(self) -> str:
        wanted = self._order["work_dir"]
        try:
            os.chdir(wanted)
            os.chdir("/")
        except OSError as error:
            if self._is_batch:
                raise LaunchError(f"couldn't chdir to `{wanted}': {error.strerror}") from error
            text = f"error: couldn't chdir to `{wanted}': {error.strerror}: going to /tmp instead"
            self._relay.post({"message": f"slurmstepd-{self._order['node']}: {text}"})
            return "/tmp"
        return wanted

    def _fail(self, reason: str) -> None:
        """Nothing was started."""
        for task in self._tasks:
            task.exited = True
            task.exit_code = 0 if self._is_batch else 1
        if not self._is_batch:
            self._relay.post({"message": f"slurmstepd-{self._order['node']}: error: {reason}"})
            for task in self._tasks:
                self._post_exit(task)
        self._record_end(LAUNCH_FAILED_SIGNAL if self._is_batch else 0, reason)

    # --- the loop ----------------------------------------------------------------------------------------

    def _timeout_ms(self) -> int | None:
        until = min(self._kill_time, self._linger_until, self._tell_start_time, self._look_time)
        if until == float("inf"):
            return None
        return max(0, int((until - time.monotonic()) * 1000) + 1)

    def _handle(self, descriptor: int, events: int) -> None:
        if descriptor == self._wakeup:
            os.read(self._wakeup, 4096)
        elif descriptor == self._listener.fileno():
            self._accept()
        elif self._channel is not None and descriptor == self._channel.fileno():
            self._serve_channel(events)
        else:
            taken = self._streams.serve(descriptor, events)
            if taken:
                self._tell({"input_taken": taken})

    def _advance(self) -> bool:
        """Moves on as far as possible without waiting; True when all is done."""
        self._reap()
        if time.monotonic() >= self._look_time:
            self._look_at_lease()
        if self._end is None and all(task.exited for task in self._tasks):
            self._record_end(0, "")
        elif time.monotonic() >= self._tell_start_time:
            self._tell({"started": self._take_started()})
        if time.monotonic() >= self._kill_time and not (self._childless and self._clean):
            self._kill_again()
        if self._end is not None and not self._clean:
            self._clean_up()
        self._streams.update_pauses()
        self._watch_channel()
        return self._clean and self._is_delivered()

    def _look_at_lease(self) -> None:
        """Nobody may run this any more when the lease is over: it is about to start elsewhere."""
        left_s = lease.left_s(self._order["lease"])
        if left_s > 0 and not self._clean:
            self._look_time = time.monotonic() + min(left_s, lease.LONGEST_LOOK_S)
            return
        self._look_time = float("inf")
        if not self._clean:
            self._is_lost = self._end is None
            wait_s = self._order["lease_kill_wait_s"]
            self._begin_end({"kill": False, "wait_s": wait_s, "message": self._farewell()})

    def _farewell(self) -> str:
        """As the daemon would write it."""
        order = self._order
        name = f"JOB {order['job_id']}" if self._is_batch else f"STEP {order['job_id']}.{order['step_id']}"
        when = time.strftime("%Y-%m-%dT%H:%M:%S")
        why = "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
        what = f"{name} ON {order['node']} CANCELLED AT {when} {why}"
        return f"slurmstepd-{order['node']}: error: *** {what} ***"

    def _reap(self) -> None:
        while not self._childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            task = self._task_of_pid.pop(pid, None)
            if task is not None:
                task.set_status(status)
                if not self._is_batch:
                    self._post_exit(task)

    def _post_exit(self, task: Task) -> None:
        self._relay.post({"exited": [task.rank, task.exit_code, task.exit_signal, task.dumped_core]})

    def _record_end(self, launch_failed_signal: int, reason: str) -> None:
        """The tasks have ended: on disk first, then to the daemon."""
        exit_code = max(task.exit_code for task in self._tasks)
        exit_signal = launch_failed_signal or max(task.exit_signal for task in self._tasks)
        self._end = {
            "exit_code": 0 if exit_signal else exit_code,
            "exit_signal": exit_signal,
            "time": time.time(),
            "start_time": self._start_time,
            "launch_failed": bool(launch_failed_signal),
            "reason": reason,
            "node_lost": self._is_lost,
        }
        try:
            self._record("end", self._end)
        except OSError as error:  # a full disk: the daemon, if there is one, still learns it
            sys.stderr.write(f"minislurmd: the end of {self._order['job_id']} is not on disk: {error}\n")
        if self._childless and self._tracker.remove():
            self._set_clean()
        free = self._is_batch and self._clean
        self._tell({"started": self._take_started(), "ended": self._end, "clean": self._clean, "free": free})
        if not self._clean and self._kill_time == float("inf"):
            self._kill_again()

    def _take_started(self) -> dict[str, Any] | None:
        started, self._started = self._started, None
        self._tell_start_time = float("inf")
        return started

    def _kill_again(self) -> None:
        self._tracker.kill()
        self._kill_time = time.monotonic() + self._kill_interval_s
        self._kill_interval_s = min(self._kill_interval_s * 1.5, MAXIMUM_KILL_INTERVAL_S)

    def _clean_up(self) -> None:
        self._reap()
        if self._childless and self._tracker.remove():
            self._set_clean()
            self._tell({"clean": True, "free": self._is_batch})

    def _set_clean(self) -> None:
        self._clean = True
        self._kill_time = float("inf")

    def _is_delivered(self) -> bool:
        if self._is_batch:
            return self._channel is None or not self._channel.pending_bytes
        if self._forgotten:
            return True
        if not self._done_posted:
            # Nobody is left who could write: what the pipes still hold is all there will ever be.
            if not self._streams.drain():
                return self._linger()
            self._relay.post({"done": True})
            self._done_posted = True
        return self._relay.is_empty or self._linger()

    def _linger(self) -> bool:
        """True when srun has been waited for long enough."""
        if self._linger_until == float("inf"):
            self._linger_until = time.monotonic() + LINGER_S
        return time.monotonic() >= self._linger_until

    # --- the daemon's side -------------------------------------------------------------------------------

    def _set_channel(self, connection: socket.socket) -> frames.FrameSocket:
        self._drop_channel()
        self._channel = frames.FrameSocket(connection)
        self._poll.register(self._channel.fileno(), select.POLLIN)
        return self._channel

    def _drop_channel(self) -> None:
        if self._channel is not None:
            self._poll.unregister(self._channel.fileno())
            self._channel.close()
            self._channel = None
            self._relay.detach()

    def _watch_channel(self) -> None:
        if self._channel is not None:
            writing = select.POLLOUT if self._channel.pending_bytes else 0
            self._poll.modify(self._channel.fileno(), select.POLLIN | writing)

    def _tell(self, message: dict[str, Any]) -> None:
        if self._channel is None:
            return
        try:
            self._channel.send_control(message)
        except OSError:
            self._drop_channel()

    def _accept(self) -> None:
        """A daemon that was restarted. It learns where things stand."""
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        _, user_id, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user_id not in (0, os.geteuid()):
            connection.close()
            return
        self._set_channel(connection)
        self._take_started()
        pids = [task.pid for task in self._tasks]
        self._tell(
            {
                "hello": {"pids": pids, "time": self._start_time},
                "kill_on_disconnect": self._order["kill_on_disconnect"],
                "ended": self._end,
                "clean": self._clean,
            }
        )

    def _serve_channel(self, events: int) -> None:
        assert self._channel is not None
        try:
            if events & select.POLLOUT:
                self._channel.flush()
            received = self._channel.receive() if events & ~select.POLLOUT else []
        except (EOFError, OSError):
            self._drop_channel()
            return
        self._hear(received)

    def _hear(self, received: list[tuple[int, bytes]]) -> None:
        for kind, payload in received:
            assert kind != frames.ORDER, "the step before is not over"
            if kind == frames.INPUT:
                taken = self._streams.give_input(payload)
                if taken:
                    self._tell({"input_taken": taken})
            else:
                self._obey(json.loads(payload))

    def _obey(self, request: dict[str, Any]) -> None:
        if "acknowledge" in request:
            self._relay.acknowledge(request["acknowledge"])
        elif "signal" in request:
            self._signal(request)
        elif "end" in request:
            self._begin_end(request["end"])
        elif "attach" in request and self._channel is not None:
            try:
                self._relay.attach(self._channel, request["attach"])
            except OSError:
                self._drop_channel()
        elif "forget" in request:
            self._forgotten = True

    def _signal(self, request: dict[str, Any]) -> None:
        """`to`: see `messages.SignalStep`."""
        if self._end is not None:
            return
        self._write_message(request.get("message", ""))
        numbers = [signal.SIGCONT] if request.get("continue_first") else []
        for number in (*numbers, request["signal"]):
            if request["to"] == "all":
                send_signal(self._tracker.pids(), number)
            elif request["to"] in ("catch", "catch_or_shell"):
                shells = request["to"] == "catch_or_shell"
                send_signal(catchers(self._tracker.pids(), number, shells=shells), number)
            else:
                for pid in list(self._task_of_pid):
                    send_signal([-pid if request["to"] == "group" else pid], number)

    def _begin_end(self, request: dict[str, Any]) -> None:
        """CONT and TERM to everything, KILL after `wait_s`; or KILL at once. Again: only ever harder."""
        now = time.monotonic()
        kill_time = now if request["kill"] else now + request["wait_s"]
        is_first = self._kill_time == float("inf")
        if self._clean:
            return
        if is_first:
            if self._end is None:
                self._write_message(request.get("message", ""))
            if not request["kill"]:
                pids = self._tracker.pids()
                send_signal(pids, signal.SIGCONT)
                send_signal(pids, signal.SIGTERM)
                # What was forked in between.
                send_signal(set(self._tracker.pids()) - set(pids), signal.SIGTERM)
        self._kill_time = min(self._kill_time, kill_time)

    def _write_message(self, text: str) -> None:
        """Into the job's output, or to srun."""
        if not text:
            return
        if not self._is_batch:
            self._relay.post({"message": text})
        elif self._error_fd >= 0:
            try:
                os.write(self._error_fd, os.fsencode(text + "\n"))
            except OSError:
                pass  # the user's disk is full, or his file is a closed pipe


def _ignore(number: int, frame: object) -> None:
    """A handler must exist for the wake-up descriptor to be written, and for calls to fail with EPIPE."""


def _open_group(path: str) -> int:
    try:
        return os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LaunchError(f"no control group {path}: {error.strerror}") from error
