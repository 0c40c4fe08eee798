"""The one table of job options."""

from __future__ import annotations

from collections import Counter

import pytest

from minislurm.cli.job_options import JobOptions
from minislurm.cli.option import Argument, OptionError, set_value
from minislurm.cli.option_values import NodeCount
from minislurm.cli.options import (
    JOB_OPTIONS,
    JobOption,
    options_of,
    set_from_environment,
)
from minislurm.domain.errors import UsageError
from minislurm.domain.job import SignalBeforeEnd

COMMANDS = ("sbatch", "srun", "salloc")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_spelling_is_used_twice(command: str) -> None:
    options = options_of(command)
    spellings = Counter(name for option in options for name in option.spellings)
    letters = Counter(option.short for option in options if option.short)
    assert [name for name, times in (spellings + letters).items() if times > 1] == []
    assert "help" not in spellings
    assert "V" not in letters


def test_every_option_has_its_attribute_and_every_attribute_its_option() -> None:
    attributes = set(JobOptions.__struct_fields__)
    assert {option.attribute for option in JOB_OPTIONS if option.supported} == attributes
    assert {name for option in JOB_OPTIONS for name in option.clears} <= attributes


def test_every_option_that_is_built_has_help() -> None:
    assert [option.name for option in JOB_OPTIONS if option.supported and not option.help] == []


def test_our_own_options_make_none_of_slurms_ambiguous() -> None:
    assert not _option("output-mode", "sbatch").abbreviates


def test_an_input_variable_belongs_to_one_option() -> None:
    for command in COMMANDS:
        names = [name for option in options_of(command) for name in option.environment.get(command, ())]
        allowed_twice = {"SBATCH_DEBUG"}
        assert {name for name, times in Counter(names).items() if times > 1} <= allowed_twice


def _option(name: str, command: str) -> JobOption:
    return next(option for option in options_of(command) if option.name == name)


def _set(name: str, text: str | None, command: str = "sbatch") -> object:
    values = JobOptions()
    option = _option(name, command)
    set_value(values, option, text)
    return getattr(values, option.attribute)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("nodes", "2", NodeCount(2, 2)),
        ("nodes", "2-4", NodeCount(2, 4)),
        ("nodes", "1k", NodeCount(1024, 1024)),
        ("mem", "4G", 4096),
        ("time", "30", 1800.0),
        ("time", "0", 0.0),
        ("time", "UNLIMITED", 0.0),
        ("exclusive", None, "node"),
        ("nice", None, 100),
        ("nice", "-5", -5),
        ("open-mode", "a", True),
        ("open-mode", "truncate", False),
        ("output-mode", "0644", 0o644),
        ("requeue", None, True),
        ("no-requeue", None, False),
        ("kill-on-invalid-dep", "yes", True),
        ("signal", "USR1", SignalBeforeEnd(10)),
        ("signal", "B:TERM@90", SignalBeforeEnd(15, 90.0, True)),
        ("signal", "R:12@5", SignalBeforeEnd(12, 5.0)),
        ("signal", "RB:SIGUSR2@0", SignalBeforeEnd(12, 0.0, True)),
        ("gpus", "a100:4", "a100:4"),
        ("gres", "gpu", "gpu"),
    ],
)
def test_values(name: str, text: str | None, value: object) -> None:
    assert _set(name, text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("time", "x"), ("mem", "1X"), ("exclusive", "maybe"), ("nice", "x"), ("open-mode", "x"),
        ("output-mode", "0755"), ("output-mode", "9"), ("signal", "B:"), ("signal", "BB:USR1"),
        ("signal", "USR1@99999"), ("gpus", "a:b"), ("gpus-per-node", ""), ("priority", "-1"),
        ("topology", "rack:must"), ("topology", ":required"), ("switches", "2@x"), ("switches", "2@"),
    ],
)  # fmt: skip
def test_bad_values(name: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"Invalid --{name} specification"):
        _set(name, text)


@pytest.mark.parametrize("text", ["tpu:1", "gpu:a:b:1", "gpu:", "gpu:a100:-1", "gpu:1,x", ":1"])
def test_bad_generic_resources(text: str) -> None:
    with pytest.raises(OptionError, match=r"Invalid generic resource \(gres\) specification"):
        _set("gres", text)


def test_every_unsupported_option_is_refused_by_name() -> None:
    unsupported = [option for option in JOB_OPTIONS if not option.supported]
    assert len(unsupported) > 60
    from minislurm.cli.sbatch import APPLICATION

    for option in unsupported:
        if "sbatch" not in option.commands:
            continue
        word = f"--{option.name}" + ("=x" if option.argument is Argument.REQUIRED else "")
        with pytest.raises(UsageError, match=f"--{option.name} is not supported by minislurm"):
            APPLICATION.apply(APPLICATION.new_values(), APPLICATION.parse([word]).occurrences)


def test_variables_of_each_command() -> None:
    environment = {
        "SBATCH_PARTITION": "a", "SLURM_PARTITION": "b", "SALLOC_PARTITION": "c",
        "SLURM_NTASKS": "4", "SLURM_NPROCS": "5", "SBATCH_REQUEUE": "1", "SBATCH_WAIT": "0",
    }  # fmt: skip
    found = {}
    for command in COMMANDS:
        found[command] = JobOptions()
        set_from_environment(found[command], command, environment)
    assert [found[command].partition for command in COMMANDS] == ["a", "b", "c"]
    assert (found["sbatch"].ntasks, found["srun"].ntasks) == (None, 4)
    assert (found["sbatch"].requeue, found["sbatch"].wait) == (True, False)


def test_a_step_is_not_named_after_its_batch_job() -> None:
    values = JobOptions()
    set_from_environment(values, "srun", {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "batch"})
    assert (values.jobid, values.job_name) == (7, None)
    set_from_environment(values, "srun", {"SLURM_JOB_NAME": "mine"})
    assert values.job_name == "mine"


def test_a_bad_variable_is_an_error() -> None:
    with pytest.raises(OptionError, match="Invalid --time specification"):
        set_from_environment(JobOptions(), "sbatch", {"SBATCH_TIMELIMIT": "x"})


def test_a_step_of_a_job_that_changes_in_place_has_the_nodes_of_now() -> None:
    """What the script's environment says is what there was when it began."""
    begun = {"SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "2"}
    values = JobOptions()
    set_from_environment(values, "srun", {**begun, "MINISLURM_NODELIST_FILE": "/spool/nodes"})
    assert (values.nodes, values.ntasks) == (None, None)
    set_from_environment(values, "srun", begun)
    assert values.nodes is not None
    assert (values.nodes.minimum, values.ntasks) == (2, 2)
