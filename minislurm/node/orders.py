"""What the daemon tells a shepherd to do: plain JSON objects, so that the forker needs no dataclasses."""

from __future__ import annotations

from typing import TypedDict


class TaskOrder(TypedDict):
    #: Global rank; 0 for a batch script.
    rank: int
    #: "NAME=value" entries on top of the order's.
    environment: list[str]
    #: Files; "" for standard output and error: to the daemon; "" for standard input: from the daemon.
    std_in: str
    std_out: str
    std_err: str


class ShepherdOrder(TypedDict):
    job_id: int
    run: int
    #: -1: the batch script.
    step_id: int
    node: str
    #: The spool's log (spool.py).
    log: str
    user_id: int
    group_id: int
    user_name: str
    arguments: list[str]
    environment: list[str]
    work_dir: str
    umask: int
    tasks: list[TaskOrder]
    append: bool
    output_mode: int
    #: Directory of the step's control group; "" where processes are tracked as descendants.
    cgroup: str
    #: Whoever cannot find srun any more kills the step.
    kill_on_disconnect: bool
    #: The node's lease (lease.py; "": there is none), and how long after its end to KILL.
    lease: str
    lease_kill_wait_s: float
