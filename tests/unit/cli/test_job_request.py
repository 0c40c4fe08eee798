"""Job options to a submission."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from minislurm.cli.argv import parse
from minislurm.cli.job_environment import exported_environment
from minislurm.cli.job_options import JobOptions
from minislurm.cli.job_request import Program, make_submission
from minislurm.cli.option import OptionError, set_value
from minislurm.cli.options import options_of
from minislurm.cli.resource_request import Resources, resources_of
from minislurm.domain.configuration import Configuration, JobsSection
from minislurm.domain.errors import Refusal, RefusalCode, UsageError
from minislurm.domain.job import JobSpec
from minislurm.domain.reservation import LicenseCount
from minislurm.domain.resources import ResourceRequest
from tests.builders import a_request

_SCRIPT = Program("s.sh", b"#!/bin/sh\n", "/home/me/s.sh", ("a", "b"), (b"A=1",))


def _options(line: str) -> JobOptions:
    values = JobOptions()
    for occurrence in parse(line.split(), options_of("sbatch"), command="sbatch", permute=False).occurrences:
        set_value(values, occurrence.option, occurrence.text)
    return values


def _no_warning(text: str) -> None:
    raise AssertionError(text)


def _resources(line: str) -> Resources:
    return resources_of(_options(line), _no_warning)


def _request(line: str) -> ResourceRequest:
    return _resources(line).request


def _spec(line: str = "", program: Program = _SCRIPT) -> JobSpec:
    return make_submission(_options(line), program, Configuration(), command="sbatch").spec


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("", {"nodes_max": 0}),
        ("-n4", {"tasks": 4, "nodes_max": 0}),
        ("-n4 -c2", {"tasks": 4, "nodes_max": 0, "cpus_per_task": 2}),
        ("-N2", {"nodes_min": 2, "nodes_max": 2, "tasks": 2}),
        ("-N2-4", {"nodes_min": 2, "nodes_max": 4, "tasks": 2, "tasks_follow_nodes": True}),
        ("-N2 -n8", {"nodes_min": 2, "nodes_max": 2, "tasks": 8}),
        ("-N2-4 -n8", {"nodes_min": 2, "nodes_max": 4, "tasks": 8}),
        ("--topology=rack", {"nodes_max": 0, "topology_level": "rack"}),
        ("--topology=rack:preferred", {"nodes_max": 0, "topology_level": "rack"}),
        ("--topology=b-1:required", {"nodes_max": 0, "topology_level": "b-1", "topology_required": True}),
        ("--switches=2", {"nodes_max": 0, "switches": 2}),
        ("--switches=2@10", {"nodes_max": 0, "switches": 2, "switches_wait_s": 600.0}),
        ("--switches=1@1:30:00", {"nodes_max": 0, "switches": 1, "switches_wait_s": 5400.0}),
        ("--switches=1@0", {"nodes_max": 0}),
        ("-N4 --segment=2", {"nodes_min": 4, "nodes_max": 4, "tasks": 4, "segment": 2}),
        ("-n4 --spread-job", {"nodes_max": 0, "tasks": 4, "spread": True}),
        ("-N2 --ntasks-per-node=4", {"nodes_min": 2, "nodes_max": 2, "tasks": 8, "tasks_per_node": 4}),
        ("-n8 --ntasks-per-node=3", {"nodes_min": 3, "nodes_max": 0, "tasks": 8, "tasks_per_node": 3}),
        ("--ntasks-per-node=4", {"nodes_max": 0, "tasks": 4, "tasks_per_node": 4}),
        ("-w n[1-3]", {"nodes_min": 3, "nodes_max": 3, "tasks": 3, "required_nodes": ("n1", "n2", "n3")}),
        ("-N3 -w n1,n1", {"nodes_min": 3, "nodes_max": 3, "tasks": 3, "required_nodes": ("n1",)}),
        ("-x n2", {"nodes_max": 0, "excluded_nodes": ("n2",)}),
        ("--mem=1G", {"nodes_max": 0, "memory_per_node_mib": 1024}),
        ("--mem-per-cpu=100", {"nodes_max": 0, "memory_per_cpu_mib": 100}),
        ("--exclusive -C a100&ib", {"nodes_max": 0, "exclusive": True, "features": "a100&ib"}),
        ("--mincpus=3", {"nodes_max": 0, "cpus_per_node_min": 3}),
        ("--gres=gpu:a100:2", {"nodes_max": 0, "gpus_per_node": 2, "gpu_type": "a100"}),
        ("--gres=gpu", {"nodes_max": 0, "gpus_per_node": 1}),
        ("--gres=gpu:0", {"nodes_max": 0}),
        ("--gres=none", {"nodes_max": 0}),
        ("--gres=gpu:2 --gpus-per-node=a100:2", {"nodes_max": 0, "gpus_per_node": 2, "gpu_type": "a100"}),
        ("-G4", {"nodes_max": 0, "gpus_total": 4}),
        ("-G8 --gpus-per-node=4", {"nodes_min": 2, "nodes_max": 2, "tasks": 2, "gpus_per_node": 4}),
        ("-n4 --gpus-per-task=1", {"nodes_max": 0, "tasks": 4, "gpus_per_task": 1}),
        ("-G4 --gpus-per-task=2", {"nodes_max": 0, "tasks": 2, "gpus_per_task": 2}),
        (
            "-N2 --gpus-per-node=4 --gpus-per-task=2",
            {"nodes_min": 2, "nodes_max": 2, "tasks": 4, "tasks_per_node": 2, "gpus_per_node": 4},
        ),
        ("--gpus-per-node=2 --cpus-per-gpu=3", {"nodes_max": 0, "gpus_per_node": 2, "cpus_per_node_min": 6}),
        ("-n2 --gpus-per-task=2 --cpus-per-gpu=3",
         {"nodes_max": 0, "tasks": 2, "gpus_per_task": 2, "cpus_per_task": 6}),
        ("-N2 -G4 --cpus-per-gpu=3",
         {"nodes_min": 2, "nodes_max": 2, "tasks": 2, "gpus_total": 4, "cpus_per_node_min": 6}),
        ("--gpus=0.5", {"nodes_max": 1, "gpu_share_milli": 500, "gpu_share_of_node": True}),
        ("-G a100:.25 -n2", {
            "nodes_max": 1, "tasks": 2, "gpu_share_milli": 250, "gpu_share_of_node": True, "gpu_type": "a100",
        }),
        ("-N2 --gpus-per-node=0.5", {
            "nodes_min": 2, "nodes_max": 2, "tasks": 2, "gpu_share_milli": 500, "gpu_share_of_node": True,
        }),
        ("-n4 --gpus-per-task=0.25", {"nodes_max": 0, "tasks": 4, "gpu_share_milli": 250}),
        ("-G a100|h100:2", {"nodes_max": 0, "gpus_total": 2, "gpu_type": "a100|h100"}),
        ("-G1 --gpu-memory-min=40G --gpu-capability-min=8.0", {
            "nodes_max": 0, "gpus_total": 1, "gpu_memory_min_mib": 40960, "gpu_capability_min": "8.0",
        }),
        ("-G1 --mem-per-gpu=8G", {"nodes_max": 0, "gpus_total": 1, "memory_per_gpu_mib": 8192}),
    ],
)  # fmt: skip
def test_what_options_come_to(line: str, changes: dict[str, object]) -> None:
    assert _request(line) == a_request(**changes)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--mem=1 --mem-per-cpu=1", "mutually exclusive"),
        ("--gpus-per-task=1", "without either --gpus or -n/--ntasks"),
        ("--gres=gpu:1 --gpus-per-node=2", "do not agree"),
        ("-N2 --gpus=0.5", "do not agree"),
        ("--gpus=0.5 --gpus-per-node=1", "cannot be combined with --gpus-per-node"),
        ("--gpus=0.5 --gpus-per-task=0.5 -n1", "cannot be combined with --gpus-per-task"),
        ("--gpus=0.5 --mem-per-gpu=1G", "cannot be combined with --mem-per-gpu"),
        ("--gpus=0.5 --exclusive", "cannot be combined with --exclusive"),
        ("--gpus-per-task=0.5", "without either --gpus or -n/--ntasks"),
        ("--gres=shard:1", "GPUs have no shards here"),
        ("-G3 --gpus-per-node=2", "not a multiple"),
        ("-N3 -G4 --gpus-per-node=2", "do not agree"),
        ("-n3 -G4 --gpus-per-task=2", "do not agree"),
        ("--gres=gpu:a100:1,gpu:h100:1", "several types"),
        ("--cpus-per-gpu=2", "needs GPUs"),
        ("--mem-per-gpu=2", "needs GPUs"),
        ("-c2 -G1 --cpus-per-gpu=2", "mutually exclusive"),
        ("-n4 -G4 --cpus-per-gpu=2", "needs a number of nodes"),
    ],
)
def test_options_that_contradict_each_other(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _request(line)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("-N0", RefusalCode.INVALID_NODE_COUNT),
        ("-N1 -w n[1-2]", RefusalCode.INVALID_NODE_COUNT),
        ("-w n[2-1]", RefusalCode.INVALID_NODE_NAME),
        ("-x /no/such/file", RefusalCode.INVALID_NODE_NAME),
        ("-a 3-1", RefusalCode.INVALID_ARRAY),
        ("-d afterok:x", RefusalCode.DEPENDENCY),
    ],
)
def test_what_a_controller_would_refuse(line: str, code: RefusalCode) -> None:
    with pytest.raises(Refusal) as caught:
        _spec(line)
    assert caught.value.code is code


def test_fewer_tasks_than_nodes_is_said() -> None:
    said: list[str] = []
    request = resources_of(_options("-N4 -n2"), said.append).request
    assert (request.nodes_min, request.nodes_max, request.tasks) == (2, 2, 2)
    assert said == ["can't run 2 processes on 4 nodes, setting nnodes to 2"]


def test_tasks_per_node_that_cannot_hold_is_dropped_aloud() -> None:
    said: list[str] = []
    resources = resources_of(_options("-N1 -n8 --ntasks-per-node=4"), said.append)
    assert (resources.request.tasks_per_node, resources.tasks_per_node) == (0, None)
    assert len(said) == 1


def test_nodes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n[1-2]\nn5\n")
    assert _request(f"-w {tmp_path}/hosts").required_nodes == ("n1", "n2", "n5")


def test_the_environment_shows_only_what_was_given() -> None:
    assert (_resources("-N2").tasks, _resources("-N2 --ntasks-per-node=2").tasks) == (None, None)
    assert _resources("-n3").tasks == 3
    assert _resources("-G4 --gpus-per-task=2").tasks == 2


def test_the_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = _spec("-N1 -t 5 -o out/%j -e none --nice -a 1-3%2 -D sub --open-mode=append --wckey=k -d 4?5")
    assert spec.is_batch
    assert (spec.name, spec.command, spec.script_arguments) == ("s.sh", "/home/me/s.sh", ("a", "b"))
    assert (spec.user_id, spec.group_id) == (os.getuid(), os.getgid())
    assert spec.work_dir == f"{tmp_path}/sub"
    assert (spec.std_out, spec.std_err, spec.std_in) == ("out/%j", "/dev/null", "")
    assert (spec.array_tasks, spec.array_limit) == ((1, 2, 3), 2)
    assert (spec.nice, spec.time_limit_s, spec.open_mode_append, spec.wckey) == (100, 300.0, True, "k")
    assert (len(spec.dependencies), spec.dependency_any) == (2, True)
    assert spec.nodes_given


def test_what_the_cluster_decides_stays_open() -> None:
    spec = _spec()
    assert (spec.partition, spec.time_limit_s, spec.requeue, spec.tasks) == ("", None, None, None)
    assert not spec.nodes_given


def test_no_time_limit_is_zero() -> None:
    assert _spec("-t UNLIMITED").time_limit_s == 0.0


def test_output_files_are_the_owners_unless_they_say_otherwise() -> None:
    assert _spec().output_mode == 0o600
    assert _spec("--output-mode=0644").output_mode == 0o644
    configuration = Configuration(jobs=JobsSection(output_file_mode="0640"))
    assert make_submission(JobOptions(), _SCRIPT, configuration, command="sbatch").spec.output_mode == 0o640


def test_the_umask_is_read_and_left() -> None:
    before = os.umask(0o027)
    try:
        assert _spec().umask == 0o027
        assert _spec().umask == 0o027
    finally:
        os.umask(before)


def test_a_name_that_is_no_text_is_refused() -> None:
    options = replace(_options(""), job_name="a\udc80")
    with pytest.raises(UsageError, match="--job-name: not valid UTF-8"):
        make_submission(options, _SCRIPT, Configuration(), command="sbatch")


def test_names_may_hold_anything_that_is_text() -> None:
    name = "q'\"\n\x1b[2Jé"
    options = replace(_options(""), job_name=name)
    assert make_submission(options, _SCRIPT, Configuration(), command="sbatch").spec.name == name


_ENVIRONMENT = {b"A": b"1", b"B": b"\xff\n", b"SLURM_X": b"y"}


def _exported(export: str | None) -> dict[bytes, bytes]:
    entries = exported_environment(export, _ENVIRONMENT)
    return {name: value for name, _, value in (entry.partition(b"=") for entry in entries)}


def test_everything_is_exported_by_default() -> None:
    assert _exported(None) == _ENVIRONMENT
    assert _exported("all") == _ENVIRONMENT


def test_all_and_more() -> None:
    assert _exported("ALL,A=2,NEW='a, b',NOSUCH") == {**_ENVIRONMENT, b"A": b"2", b"NEW": b"a, b"}


def test_none_leaves_slurms_and_what_a_login_sets() -> None:
    found = _exported("NONE")
    assert found.keys() - {b"HOME", b"USER", b"LOGNAME", b"SHELL"} == {b"SLURM_X", b"PATH"}


def test_a_list_is_those() -> None:
    found = _exported("B,C=x=y")
    assert (found[b"B"], found[b"C"]) == (b"\xff\n", b"x=y")
    assert b"A" not in found


@pytest.mark.parametrize(
    ("gres", "changes"),
    [
        ("shard", {"gpu_share_milli": 333}),
        ("shard:2", {"gpu_share_milli": 666}),
        ("gres:shard:a100:2", {"gpu_share_milli": 666, "gpu_type": "a100"}),
        ("shard:3", {"gpus_per_node": 1, "gpu_share_of_node": False}),
        ("shard:0", {"gpu_share_of_node": False}),
    ],
)
def test_shards_are_parts_of_a_gpu(gres: str, changes: dict[str, Any]) -> None:
    request = resources_of(_options(f"--gres={gres}"), _no_warning, shards_per_gpu=3).request
    assert request == a_request(**{"nodes_max": 0, "gpu_share_of_node": True, **changes})


def test_shards_of_several_gpus_are_refused() -> None:
    with pytest.raises(UsageError, match="shards of one GPU only, and a GPU has 4"):
        resources_of(_options("--gres=shard:5"), _no_warning, shards_per_gpu=4)
    with pytest.raises(OptionError, match="cannot be combined"):
        _options("--gres=gpu:1,shard:1")


@pytest.mark.parametrize("text", ["1.5", "0.0", "0.0004", "a100:1.0", "0.3333"])
def test_only_thousandths_of_one_gpu_are_a_part(text: str) -> None:
    with pytest.raises(OptionError, match=r"between 0\.001 and 0\.999 of one GPU"):
        _options(f"--gpus={text}")


def test_claims_besides_nodes() -> None:
    spec = _spec("--reservation=r -L matlab,ansys:2 --exclusive=user --max-wait=1:00 --deadline=uts99")
    assert (spec.reservation, spec.request.reservation) == ("r", "r")
    assert spec.licenses == "matlab,ansys:2"
    assert spec.request.licenses == (LicenseCount("ansys", 2), LicenseCount("matlab", 1))
    assert (spec.request.exclusive, spec.request.exclusive_user) == (False, os.getuid())
    assert (spec.max_wait_s, spec.deadline) == (60.0, 99.0)


def test_licenses_that_are_none() -> None:
    with pytest.raises(Refusal, match="Invalid license specification"):
        _spec("--licenses=ansys:x")


def test_a_bid_is_credits_to_the_millionth() -> None:
    assert (
        make_submission(_options("--bid=2.000001"), _SCRIPT, Configuration(), command="sbatch").spec.bid
        == 2.000001
    )
    for text in ("-1", "x", "1e3", "0.0000001"):
        with pytest.raises(UsageError, match="--bid"):
            _options(f"--bid={text}")


def test_what_is_to_become_of_it() -> None:
    spec = _spec(
        "--max-requeues=node_fail:5,preempt:20 --on-node-fail=Replace --on-task-fail=hold --spare-nodes=1"
        " --requeue-on-timeout -N2"
    )
    assert spec.max_requeues == {"node_fail": 5, "preempt": 20}
    assert (spec.on_node_fail, spec.on_task_fail) == ("replace", "hold")
    assert (spec.spare_nodes, spec.requeue_on_timeout) == (1, True)
    plain = _spec()
    assert (plain.max_requeues, plain.on_node_fail, plain.on_task_fail) == ({}, "", "")
    assert (plain.spare_nodes, plain.requeue_on_timeout) == (0, False)


@pytest.mark.parametrize(
    "option",
    [
        "requeue-on-timeout",
        "max-requeues=preempt:1",
        "spare-nodes=1",
        "on-node-fail=hold",
        "on-task-fail=requeue",
    ],
)
def test_a_job_that_is_never_requeued_comes_back_for_nothing(option: str) -> None:
    with pytest.raises(UsageError, match="and --no-requeue contradict each other"):
        _spec(f"--no-requeue --{option}")


def test_ending_is_no_coming_back() -> None:
    assert _spec("--no-requeue --on-node-fail=end --on-task-fail=end").requeue is False


@pytest.mark.parametrize(
    "line",
    ["--max-requeues=often", "--on-node-fail=panic", "--on-task-fail=replace", "--max-requeues=user:3"],
)
def test_rules_that_there_are_not(line: str) -> None:
    with pytest.raises(OptionError, match="Invalid --"):
        _options(line)


def test_elastic() -> None:
    spec = _spec("-N2-8 --elastic --elastic-step=2")
    assert (spec.elastic, spec.elastic_signal, spec.request.nodes_step) == ("restart", 0, 2)
    spec = _spec("-N2-8 --elastic=in-place --elastic-step=double --elastic-signal=USR1")
    assert (spec.elastic, spec.elastic_signal, spec.request.nodes_step) == ("in-place", 10, -1)
    assert _spec("-N2-8").elastic == ""
    for option in ("--elastic-step=2", "--elastic-signal=USR1"):
        with pytest.raises(UsageError, match="needs --elastic"):
            _spec(f"-N2-8 {option}")
    for option in ("--elastic=often", "--elastic-step=0", "--elastic-step=x", "--elastic-signal=XYZ"):
        with pytest.raises(OptionError):
            _options(f"-N2-8 {option}")
