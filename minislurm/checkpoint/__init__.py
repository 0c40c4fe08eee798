"""Checkpoints of a job, for the script that trains. Standard library only; outside of minislurm all of it
does nothing, quietly.

    from minislurm import checkpoint

    found = checkpoint.latest()
    step = restore(found.path) if found else 0
    saver = checkpoint.save_every(steps=500)
    while step < last_step:
        step = train(step)
        if saver.due(step):
            save(path)
            checkpoint.report(path, step=step)
            if checkpoint.should_stop():
                break

What a script calls is named here, unlike in other packages' `__init__` files, so that this one import is
enough.
"""

from minislurm.checkpoint.notices import is_wanted, on_preempt, should_stop
from minislurm.checkpoint.reports import Latest, latest, report
from minislurm.checkpoint.saving import Saver, save_every

__all__ = ["Latest", "Saver", "is_wanted", "latest", "on_preempt", "report", "save_every", "should_stop"]
