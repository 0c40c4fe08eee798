"""Starting the tasks of a step: their files, their identity, fork and exec. Runs in the shepherd.

The shepherd opens the files under the user's effective ids, so that permissions are the user's own, and keeps
the descriptors for messages; the task itself becomes the user for good before anything of his runs.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from minislurm.node.orders import ShepherdOrder, TaskOrder

#: What Slurm's step daemon reports where the script never ran: shown as ExitCode 0:53.
LAUNCH_FAILED_SIGNAL = 53


class LaunchError(Exception):
    """The tasks cannot be started; the message says why."""


class Task:
    """One process that the shepherd started, with its ends of the pipes (-1: none)."""

    __slots__ = (
        "dumped_core",
        "error_fd",
        "exit_code",
        "exit_signal",
        "exited",
        "input_fd",
        "order",
        "output_fd",
        "pid",
        "rank",
        "stdio",
    )

    def __init__(self, order: TaskOrder) -> None:
        self.order = order
        self.rank = order["rank"]
        self.pid = 0
        self.stdio = (-1, -1, -1)
        self.input_fd = self.output_fd = self.error_fd = -1
        self.exited = False
        self.exit_code = self.exit_signal = 0
        self.dumped_core = False

    def set_status(self, status: int) -> None:
        self.exited = True
        if os.WIFSIGNALED(status):
            self.exit_signal = os.WTERMSIG(status)
            self.dumped_core = os.WCOREDUMP(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)


class Files:
    """Opens the tasks' files and pipes. One description for all uses of a name, so that output of tasks
    (or standard output and error) that share a file does not overwrite itself."""

    def __init__(self, order: ShepherdOrder) -> None:
        self._order = order
        self._open: dict[tuple[str, bool], int] = {}

    def open_for(self, task: Task) -> None:
        """Raises LaunchError."""
        order = task.order
        if order["std_in"]:
            input_end = self._file(order["std_in"], writing=False)
        else:
            input_end, task.input_fd = os.pipe()
        if order["std_out"]:
            output_end = self._file(order["std_out"], writing=True)
        else:
            task.output_fd, output_end = os.pipe()
        if order["std_err"]:
            error_end = self._file(order["std_err"], writing=True)
        else:
            task.error_fd, error_end = os.pipe()
        task.stdio = (input_end, output_end, error_end)

    def _file(self, name: str, *, writing: bool) -> int:
        key = (name, writing)
        if key not in self._open:
            self._open[key] = self._open_file(name, writing)
        return self._open[key]

    def _open_file(self, name: str, writing: bool) -> int:
        order = self._order
        path = os.path.join(order["work_dir"], name)
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY
        if writing:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
            # A step's file may be shared with the same step on other nodes: always at the end.
            flags |= os.O_APPEND if order["append"] or order["step_id"] >= 0 else 0
            flags |= 0 if order["append"] else os.O_TRUNC
        try:
            return os.open(path, flags, order["output_mode"])
        except OSError as error:
            kind = "output" if writing else "input"
            raise LaunchError(f"Could not open {kind} file {path}: {error.strerror}") from error

    def close_parents_copies(self, tasks: list[Task], keep: int = -1) -> None:
        """After the forks: the ends that only the tasks need."""
        descriptors = {descriptor for task in tasks for descriptor in task.stdio} - {-1, keep}
        for descriptor in descriptors:
            os.close(descriptor)
        self._open.clear()


def must_become_user(order: ShepherdOrder) -> bool:
    return os.geteuid() == 0 and (order["user_id"], order["group_id"]) != (0, os.getegid())


def prepare_groups(order: ShepherdOrder) -> None:
    """Gives this process the user's groups (it stays root otherwise). Root's jobs have the daemon's."""
    if not must_become_user(order):
        return
    try:
        os.initgroups(order["user_name"], order["group_id"])
    except OSError:
        os.setgroups([order["group_id"]])


def as_user(order: ShepherdOrder) -> None:
    """Takes the user's effective ids, for opening files; `as_root` gives them back."""
    if must_become_user(order):
        os.setegid(order["group_id"])
        os.seteuid(order["user_id"])


def as_root(was_root: bool) -> None:
    if was_root:
        os.seteuid(0)
        os.setegid(0)


class Program:
    """What all tasks of an order execute. Worked out before the fork: the child of a Python process pays for
    every page that it touches."""

    def __init__(self, order: ShepherdOrder) -> None:
        self._order = order
        self._arguments = [os.fsencode(argument) for argument in order["arguments"]]
        self._environment = _encoded(order["environment"])

    def start(self, task: Task, work_dir: str, group_descriptor: int) -> int:
        """Forks and executes; the pid. `group_descriptor`: cgroup.procs of the step, or -1."""
        environment = self._environment
        if task.order["environment"]:
            environment = {**environment, **_encoded(task.order["environment"])}
        candidates = _candidates(self._arguments[0], environment.get(b"PATH"))
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            _become(self._order, task, work_dir, group_descriptor)
            environment[b"SLURM_TASK_PID"] = b"%d" % os.getpid()
            code = self._execute(candidates, environment)
        except BaseException as error:
            _complain(self._order, f"error: {error}")
        finally:
            os._exit(code)

    def _execute(self, candidates: list[bytes], environment: dict[bytes, bytes]) -> int:
        """Returns only on failure: the exit code, Slurm's is errno (2: not found, 13: no permission)."""
        error = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        for program in candidates:
            try:
                os.execve(program, self._arguments, environment)
            except OSError as failure:
                if failure.errno not in (errno.ENOENT, errno.ENOTDIR) and error.errno == errno.ENOENT:
                    error = failure
        _complain(self._order, f"error: execve(): {self._order['arguments'][0]}: {error.strerror}")
        return error.errno or 1


def _encoded(entries: list[str]) -> dict[bytes, bytes]:
    environment: dict[bytes, bytes] = {}
    for entry in entries:
        name, _, value = os.fsencode(entry).partition(b"=")
        environment[name] = value
    return environment


def _become(order: ShepherdOrder, task: Task, work_dir: str, group_descriptor: int) -> None:
    """Session, control group, standard streams, user, directory: in this order. Raises OSError."""
    os.setsid()
    if group_descriptor >= 0:
        os.write(group_descriptor, b"0")
    for number, descriptor in enumerate(task.stdio):
        os.dup2(descriptor, number)
    if must_become_user(order):
        os.setresgid(order["group_id"], order["group_id"], order["group_id"])
        os.setresuid(order["user_id"], order["user_id"], order["user_id"])
    os.umask(order["umask"])
    os.chdir(work_dir)


def _candidates(program: bytes, path: bytes | None) -> list[bytes]:
    """Where a program may be. Without PATH nowhere, as in Slurm."""
    if b"/" in program:
        return [program]
    return (
        [os.path.join(directory or b".", program) for directory in (path or b"").split(b":")] if path else []
    )


def _complain(order: ShepherdOrder, text: str) -> None:
    try:
        os.write(2, os.fsencode(f"slurmstepd-{order['node']}: {text}\n"))
    except OSError:
        pass
