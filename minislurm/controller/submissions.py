"""What a submission brings along is stored, and named in its specification."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from minislurm.controller.blobs import blob_name, join_environment
from minislurm.controller.engine import Engine
from minislurm.domain.errors import Refusal, RefusalCode
from minislurm.domain.job import JobSpec


def prepare_submission(engine: Engine, spec: JobSpec, script: bytes, environment: Sequence[bytes]) -> JobSpec:
    """The specification with the names of its script and environment. Raises Refusal if too large."""
    limits = engine.configuration.limits
    if len(script) > limits.max_script_bytes:
        raise Refusal(RefusalCode.SCRIPT_TOO_LARGE)
    joined = join_environment(environment)
    if len(joined) > limits.max_environment_bytes:
        raise Refusal(RefusalCode.SCRIPT_TOO_LARGE, details=("the job's environment is too large",))
    script_name, environment_name = blob_name(script), blob_name(joined)
    engine.keep_blob(script_name, script)
    engine.keep_blob(environment_name, joined)
    return replace(spec, script_hash=script_name, environment_hash=environment_name)
