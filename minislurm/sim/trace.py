"""What a trace says: jobs, when they came, how long they ran, what they asked for.

Readers (`swf`, `openb`, `table`) make a `Workload` of a file. Times are seconds; amounts are whole numbers.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from minislurm.domain.errors import MinislurmError
from minislurm.domain.job import JobSpec


class TraceError(MinislurmError):
    """`file:line: reason`, or `file: reason` where no line is to blame."""


class TraceJob(Struct, frozen=True):
    """One job of a trace. All amounts are for the whole job.

    `processors` is for logs that know one kind of resource: they are played by GPUs on a cluster that has
    GPUs, else by CPUs. A trace that says what it means has `gpus` and `cpus` instead.
    """

    name: str
    submit_s: float
    run_s: float
    #: The user's estimate; None: none given.
    limit_s: float | None = None
    processors: int = 0
    #: 0: as few as can hold it.
    nodes: int = 0
    cpus: int = 0
    gpus: int = 0
    #: Thousandths of one GPU, instead of `gpus`; 0: whole ones.
    gpu_share_milli: int = 0
    #: Any of several: "V100M16|V100M32"; "": any at all.
    gpu_type: str = ""
    memory_mib: int = 0
    user: str = ""
    account: str = ""
    partition: str = ""
    #: Offered for a GPU- or CPU-hour, where the order is ``auction``.
    bid: float = 0.0
    #: Of minislurm's own journal: what was asked for, instead of the amounts.
    spec: JobSpec | None = None


#: Seconds of a time or a duration (over three thousand years), and units of an amount: more is a mistake.
LONGEST_S = 1e11
LARGEST = 10**12


class Workload(Struct, frozen=True):
    """Jobs in order of submission. `skipped`: lines that could not be read (with `lenient`)."""

    name: str
    jobs: tuple[TraceJob, ...]
    skipped: tuple[str, ...] = ()
    #: What the reader left aside, for the user to know.
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, reading: Reading, jobs: Iterable[TraceJob], notes: Iterable[str] = ()) -> Workload:
        ordered = sorted(jobs, key=lambda job: job.submit_s)
        return cls(reading.path.name, tuple(ordered), tuple(reading.skipped), tuple(notes))

    def scaled(self, factor: float) -> Workload:
        """Submission times stretched (above 1: less load) or compressed (below 1: more)."""
        if not self.jobs or factor == 1.0:
            return self
        first = self.jobs[0].submit_s
        stretched = (replace(job, submit_s=first + (job.submit_s - first) * factor) for job in self.jobs)
        return replace(self, jobs=tuple(stretched))


class Reading(Struct):
    """A trace file being read. Lines are counted from 1."""

    path: Path
    lenient: bool = False
    skipped: list[str] = field(default_factory=list)

    def lines(self, comment: str = "\0") -> Iterator[tuple[int, str]]:
        """Plain or gzip, without line ends. Lines that begin with `comment` are left out unread: headers of
        archives are in any encoding. Raises TraceError."""
        number, marker = 0, comment.encode()
        try:
            with self._open() as file:
                for number, line in enumerate(file, start=1):
                    if line.startswith(marker):
                        continue
                    try:
                        # Spreadsheets put a mark of the byte order before the first line.
                        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                    except UnicodeDecodeError:
                        self.bad(number, "not text in UTF-8")
                        continue
                    yield number, text.rstrip("\r\n")
        except EOFError:
            raise TraceError(f"{self.path}:{number + 1}: the compressed file ends too early") from None
        except zlib.error:
            raise TraceError(f"{self.path}:{number + 1}: the compressed file is damaged") from None
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror or error}") from None

    def _open(self) -> gzip.GzipFile | BufferedReader:
        with self.path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return gzip.GzipFile(self.path) if packed else self.path.open("rb")

    def rows(self, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, str] | str]]:
        """Of a CSV file, by the columns of its header, which comes first with empty cells; a text instead of
        a row: why it is none."""
        header: list[str] | None = None
        for number, line in lines:
            if not line.strip():
                continue
            try:
                # Line by line: a stray quote spoils one row, not all that follow.
                row = next(csv.reader([line], strict=True))
            except csv.Error as error:
                yield number, f"not valid CSV: {error}"
                continue
            if header is None:
                header = [cell.strip() for cell in row]
                yield number, dict.fromkeys(header, "")
            elif len(row) != len(header):
                yield number, f"has {len(row)} columns, the header has {len(header)}"
            else:
                yield number, dict(zip(header, row, strict=True))

    def bad(self, line: int, reason: str) -> None:
        """Raises TraceError, or counts the line with `lenient`."""
        text = f"{self.path}:{line}: {reason}"
        if not self.lenient:
            raise TraceError(text)
        self.skipped.append(text)
