"""What a job asks to become of it when a run of it ends before its time: causes of requeues, limits for each,
and what to do when a node or a task fails."""

from __future__ import annotations

#: Causes of requeues that may be limited; a user's own are not.
CAUSES = ("node_fail", "launch_failure", "preempt", "time_slice", "timeout", "task_fail")
#: What may become of a job whose node is lost, and of one whose script fails.
NODE_FAIL_ACTIONS = ("requeue", "replace", "end", "hold")
TASK_FAIL_ACTIONS = ("end", "requeue", "hold")


def parse_requeue_limits(text: str) -> dict[str, int]:
    """``node_fail:5,preempt:20``; "" for none. Raises ValueError("must be …")."""
    limits: dict[str, int] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        cause, _, count = word.partition(":")
        if cause not in CAUSES or not count.isdecimal() or len(count) > 9:
            causes = ", ".join(CAUSES)
            raise ValueError(f'must be limits such as "node_fail:5,preempt:20"; causes are {causes}')
        limits[cause] = int(count)
    return limits
