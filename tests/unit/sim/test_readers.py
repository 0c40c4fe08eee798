from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from minislurm.domain.errors import ConfigurationError
from minislurm.sim import cluster_file, openb, swf, table, trace_file
from minislurm.sim.trace import TraceError, TraceJob, Workload
from tests.unit.sim.traces import public

GOOD = "1 10 -1 50 4 -1 -1 8 100 -1 1 3 7 -1 -1 -1 -1 -1"


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def only(workload: Workload) -> TraceJob:
    (job,) = workload.jobs
    return job


def test_a_line_of_swf(file: Callable[..., Path]) -> None:
    job = only(swf.read(file("; MaxProcs: 100", "", GOOD)))
    assert job == TraceJob("1", 10.0, 50.0, 100.0, processors=8, user="user3", account="group7")


def test_allocated_processors_stand_in_for_requested_ones(file: Callable[..., Path]) -> None:
    job = only(swf.read(file("1 10 -1 50 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1")))
    assert (job.processors, job.limit_s, job.user) == (4, None, "")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 2 3", "has 3 columns, SWF has 18"),
        (GOOD.replace("50", "fifty"), "column 4 is not a number: fifty"),
        (GOOD.replace("50", "nan"), "column 4 is not a number: nan"),
        (GOOD.replace(" 50 ", " -1 "), "the run time is not known"),
        (GOOD.replace("50", "1e300"), "column 4 is over 1e+11 seconds: 1e300"),
        (GOOD.replace(" 8 ", " 1e30 "), "there are no 1e+30 processors"),
        ("1 -1 -1 5 4 -1 -1 8 9 -1 1 3 7 -1 -1 -1 -1 -1", "the submission time is not known"),
        (
            "1 2 -1 5 0 -1 -1 -1 9 -1 1 3 7 -1 -1 -1 -1 -1",
            "neither requested nor allocated processors are known",
        ),
    ],
)
def test_a_bad_line_of_swf_is_named(file: Callable[..., Path], line: str, reason: str) -> None:
    path = file("; head", GOOD, line)
    with pytest.raises(TraceError) as error:
        swf.read(path)
    assert str(error.value) == f"{path}:3: {reason}"
    lenient = swf.read(path, lenient=True)
    assert len(lenient.jobs) == 1
    assert lenient.skipped == (f"{path}:3: {reason}",)


def test_a_table_with_every_column(file: Callable[..., Path]) -> None:
    row = "submit,run,limit,nodes,cpus,gpus,memory_mib,name,user,account,partition,gpu_type,gpu_share_milli"
    job = only(table.read(file(row, "5,60,120,2,16,4,1024,train,ann,vision,batch,A|B,0")))
    assert job == TraceJob(
        "train", 5.0, 60.0, 120.0, nodes=2, cpus=16, gpus=4, gpu_type="A|B", memory_mib=1024, user="ann",
        account="vision", partition="batch",
    )  # fmt: skip


def test_json_lines(file: Callable[..., Path]) -> None:
    workload = table.read(file('{"submit": 5, "run": 60, "gpus": 1}', '{"submit": 1, "run": 2.5, "cpus": 3}'))
    assert [(job.submit_s, job.run_s, job.gpus, job.cpus) for job in workload.jobs] == [
        (1, 2.5, 0, 3),
        (5, 60, 1, 0),
    ]


def test_phillys_columns_are_known_and_others_noted(file: Callable[..., Path]) -> None:
    workload = table.read(
        file("timestamp,duration,num_gpus,gpu_time,cluster", "2017-10-09 07:01:55,66.0,1,66.0,11cb48")
    )
    job = only(workload)
    assert (job.submit_s, job.run_s, job.gpus, job.account) == (1507532515.0, 66.0, 1, "11cb48")
    assert workload.notes == ("columns not used: gpu_time",)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1,2", "has 2 columns, the header has 4"),
        ("x,2,1,", "submit is not a number of 0 or more: x"),
        ("1,-2,1,", "run is not a number of 0 or more: -2"),
        ("1,inf,1,", "run is not a number of 0 or more: inf"),
        ("1,1e300,1,", "run is too large: 1e300"),
        ("1,1,1e30,", "gpus is too large: 1e30"),
        ("1,1,1.5,", "gpus is not a whole number: 1.5"),
        ("2017-13-01,1,1,", "submit is neither seconds nor a date and time: 2017-13-01"),
        (",1,1,", "submit is missing"),
        ("1,1,0,", "asks for nothing: gpus, cpus, processors and gpu_share_milli are all 0 or missing"),
        ("1,1,,1000", "gpu_share_milli is 1000, must be below 1000"),
        ('1,1,"1,', "not valid CSV: unexpected end of data"),
    ],
)
def test_a_bad_row_of_a_table_is_named(file: Callable[..., Path], row: str, reason: str) -> None:
    path = file("submit,run,gpus,gpu_share_milli", "1,1,1,", row)
    with pytest.raises(TraceError) as error:
        table.read(path)
    assert str(error.value) == f"{path}:3: {reason}"
    assert len(table.read(path, lenient=True).jobs) == 1


def test_a_line_that_is_no_text_spoils_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfsubmit,run,cpus,user\r\n0,5,1,m\xfcller\r\n1,2,3,ann\r\n")
    with pytest.raises(TraceError, match=":2: not text in UTF-8"):
        table.read(path)
    workload = table.read(path, lenient=True)
    assert [job.user for job in workload.jobs] == ["ann"], "a mark of the byte order is no part of a name"
    assert workload.skipped == (f"{path}:2: not text in UTF-8",)


def test_the_comments_of_an_archive_may_be_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    path.write_bytes(b"; Institut f\xfcr Informatik\n" + GOOD.encode())
    assert only(swf.read(path)).processors == 8


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(GOOD.encode() * 50))
    packed[20:24] = b"XXXX"
    path = tmp_path / "a.swf.gz"
    path.write_bytes(packed)
    with pytest.raises(TraceError, match=r"the compressed file is damaged|cannot be read"):
        swf.read(path)


def test_if_no_line_can_be_read_the_first_is_still_named(tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    path.write_text("1 2 3\n")
    with pytest.raises(TraceError) as error:
        trace_file.read(path, lenient=True)
    assert str(error.value) == f"{path}: holds no job (1 line skipped: {path}:1: has 3 columns, SWF has 18)"


def test_bad_json_is_named(file: Callable[..., Path]) -> None:
    path = file('{"submit": 1, "run": 1, "gpus": 1}', "{oops", "[1]")
    skipped = table.read(path, lenient=True).skipped
    assert skipped[0].startswith(f"{path}:2: not valid JSON")
    assert skipped[1] == f"{path}:3: not a JSON object"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", b"", "a.csv: is empty"),
        ("a.csv", b"a,b\n1,2\n", "a.csv:1: the header has no column submit and run"),
        ("a.swf", b"; nothing\n", "a.swf: holds no job"),
        ("a.csv", b"submit,run,gpus\n1,1,1\n\xff\xfe\n", ": not text in UTF-8"),
        ("a.swf.gz", gzip.compress(GOOD.encode())[:-9], "a.swf.gz:1: the compressed file ends too early"),
        ("missing/a.csv", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TraceError) as error:
        trace_file.read(path)
    assert reason in str(error.value)


PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"


def test_openbs_pods(file: Callable[..., Path]) -> None:
    jobs = trace_file.read(
        file(PODS, "a,3152,1024,1,460,V100M16|V100M32,5,25", "b,4000,2048,2,1000,,6,7", "c,500,1,0,0,,7,8")
    ).jobs
    assert jobs[0] == TraceJob(
        "a", 5.0, 20.0, nodes=1, cpus=4, gpu_share_milli=460, gpu_type="V100M16|V100M32", memory_mib=1024
    )
    assert (jobs[1].gpus, jobs[1].gpu_share_milli, jobs[2].gpus, jobs[2].cpus) == (2, 0, 0, 1)


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ("a,1,1,many,0,,0,0", "num_gpu is not a whole number: many"),
        ("a,1,1,-1,0,,0,0", "num_gpu is below 0: -1"),
        ("a,1,1,1,1000,,soon,0", "creation_time is not a number of seconds: soon"),
        ("a,1,1,1,1000,,0,nan", "deletion_time is not a number of seconds: nan"),
    ],
)
def test_a_bad_pod_is_named(file: Callable[..., Path], pod: str, reason: str) -> None:
    path = file(PODS, pod)
    with pytest.raises(TraceError) as error:
        openb.read(path)
    assert str(error.value) == f"{path}:2: {reason}"


def test_openbs_nodes(file: Callable[..., Path]) -> None:
    path = file("sn,cpu_milli,memory_mib,gpu,model", "n-0,64000,262144,2,P100", "n-1,96000,1024,0,")
    first, second = cluster_file.read(f"openb:{path}").nodes
    assert (first.name, first.cpus, first.gpus[0].count, first.gpus[0].type) == ("n-0", 64, 2, "P100")
    assert second.gpus == ()
    with pytest.raises(ConfigurationError, match=r"trace.csv:2: cpu_milli, memory_mib and gpu must be whole"):
        cluster_file.read(f"openb:{file('sn,cpu_milli,memory_mib,gpu,model', 'n,x,1,1,')}")


def test_pods_are_drawn_until_the_demand_is_reached() -> None:
    pods = [TraceJob(f"{n}", 0, 0, gpus=n % 2, gpu_share_milli=500 if n % 2 == 0 else 0) for n in range(10)]
    drawn = openb.arrivals(pods, 10_000, seed=1)
    assert sorted(job.name for job in drawn[:10]) == [f"{n}" for n in range(10)]
    assert 13_000 <= sum(map(openb.demand_milli, drawn)) < 14_000
    assert drawn == openb.arrivals(pods, 10_000, seed=1) != openb.arrivals(pods, 10_000, seed=2)


@pytest.mark.parametrize("text", ["flat:0", "flat:-1", "flat:many", "flat:", "flat:65537"])
def test_a_flat_pool_has_processors(text: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a number of processors"):
        cluster_file.read(text)


def test_a_node_without_declared_cpus_is_refused(file: Callable[..., Path]) -> None:
    path = file('[[nodes]]\nname = "n1"\n[[partitions]]\nname = "p"\nnodes = "ALL"', name="c.toml")
    with pytest.raises(ConfigurationError, match="n1: declares no cpus"):
        cluster_file.read(str(path))


def test_racks_of_so_many_nodes() -> None:
    nodes = cluster_file.flat("8").nodes * 5
    racked = cluster_file.in_racks(cluster_file.of_nodes(list(nodes)), 2)
    assert [len(domain.nodes) for domain in racked.topology] == [2, 2, 1]


def test_settings_of_any_kind_of_cluster_can_be_overridden() -> None:
    changed = cluster_file.read("flat:8", ("scheduler.backfill=off", "nodes.pool.weight=3"))
    assert (changed.scheduler.backfill, changed.nodes[0].weight, changed.nodes[0].cpus) == ("off", 3, 8)
    nodes = f"openb:{public('openb_node_list_gpu_node.csv')}"
    assert replace(cluster_file.read(nodes, ("scheduler.backfill=off",)), path="") == replace(
        cluster_file.read(nodes), scheduler=changed.scheduler
    )
    with pytest.raises(ConfigurationError, match=r"--set scheduler\.luck=1: unknown key"):
        cluster_file.read("flat:8", ("scheduler.luck=1",))
