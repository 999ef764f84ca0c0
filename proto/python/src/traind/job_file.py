"""Job files as users give them: a mapping, a path, or YAML."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from traind import arguments
from traind.connection import StrPath
from traind.errors import JobFileInvalid, JobFileWarning
from traind.v1 import jobs_pb2

#: A mapping of the job file's sections, the path of a YAML file, or YAML (text with a line break).
JobSource = Union[Mapping[str, Any], StrPath]

#: Bytes that the daemon takes at most.
_BYTES_MAX = 1 << 20


def warn(job: jobs_pb2.Job, source: JobSource = "") -> None:
    """Issues the warnings of a submitted job, for the caller of the method that calls this."""
    for warning in job.warnings:
        has_lines = not isinstance(source, Mapping)
        message = warning.message if has_lines else re.sub(r"^line \d+: ", "", warning.message)
        warnings.warn(message, JobFileWarning, stacklevel=3)


@contextlib.contextmanager
def lines_of(job: JobSource) -> Iterator[None]:
    """Leaves the lines of mistakes out where the job is a mapping, whose lines nobody has seen."""
    try:
        yield
    except JobFileInvalid as error:
        if not isinstance(job, Mapping):
            raise
        raise error.without_lines() from None


def create_request(
    job: JobSource, overrides: Mapping[str, Any] | None, base_dir: StrPath | None, request_id: str | None
) -> jobs_pb2.CreateJobRequest:
    """The request that submits a job. It has an id, so that however often it is sent, it makes one job."""
    return jobs_pb2.CreateJobRequest(
        request_id=request_id or uuid.uuid4().hex,
        job_file=text(job),
        base_dir=folder(base_dir),
        overrides=values(overrides),
    )


def fork_request(
    reference: str, at: int | None, overrides: Mapping[str, Any] | None, request_id: str | None
) -> jobs_pb2.ForkJobRequest:
    """The request that forks a job; step 0 stands for its newest checkpoint."""
    return jobs_pb2.ForkJobRequest(
        request_id=request_id or uuid.uuid4().hex,
        job_id=reference,
        step=arguments.count("at", at) or 0,
        overrides=values(overrides),
    )


def plan_request(
    job: JobSource,
    overrides: Mapping[str, Any] | None,
    base_dir: StrPath | None,
    search: Mapping[str, Any] | None,
) -> jobs_pb2.PlanJobRequest:
    """The request that asks what a job would take, on its own mesh or on all that `search` compares."""
    return jobs_pb2.PlanJobRequest(
        job_file=text(job),
        base_dir=folder(base_dir),
        overrides=values(overrides),
        search=None if search is None else jobs_pb2.MeshSearch(**search),
    )


def generate_request(
    reference: str, prompts: Sequence[str], step: int | None, chat: bool, seed: int, settings: Mapping[str, Any]
) -> jobs_pb2.GenerateTextsRequest:
    """The request for texts of a job's model; step 0 stands for its newest checkpoint, or its trained model."""
    return jobs_pb2.GenerateTextsRequest(
        job_id=reference,
        step=arguments.count("at", step) or 0,
        prompts=prompts,
        settings={name: encode(value, name) for name, value in settings.items()},
        seed=seed,
        chat=chat,
    )


def text(job: JobSource) -> str:
    """The job file's YAML. Raises `JobFileInvalid` if the daemon would not take as much."""
    if isinstance(job, Mapping):
        name, written = "the job file", encode(job, "", indent=1)
    elif not isinstance(job, (str, os.PathLike)):
        raise TypeError(f"a job is a mapping of sections, the path of a YAML file, or YAML, not {job!r}")
    elif isinstance(job, str) and "\n" in job:
        name, written = "the job file", job
    else:
        name, written = str(job), Path(job).read_text(encoding="utf-8")
    size = len(written.encode())
    if size > _BYTES_MAX:
        message = (
            f"{name} has {size:,} bytes, and a job file at most {_BYTES_MAX:,}: name data files by a pattern such as "
            "rows/*.jsonl in place of a list, and chat templates by their files"
        )
        raise JobFileInvalid(message, code="INVALID_ARGUMENT", reason="JOB_FILE_INVALID")
    return written


def folder(base_dir: StrPath | None) -> str:
    """The folder that relative paths start at: the current one, as for `traind submit`."""
    return os.path.abspath(base_dir if base_dir is not None else os.curdir)


def values(overrides: Mapping[str, Any] | None) -> dict[str, str]:
    """Values by field path, each as YAML."""
    if overrides is not None and not isinstance(overrides, Mapping):
        message = "overrides is a mapping of field paths to values, such as {'train.max_steps': 10}"
        raise TypeError(f"{message}, not {overrides!r}")
    return {path: encode(value, path) for path, value in (overrides or {}).items()}


def encode(value: Any, path: str, indent: int | None = None) -> str:
    """The value of a field as JSON, which is YAML as long as characters are not written as pairs of surrogates."""
    return json.dumps(plain(value, path), indent=indent, ensure_ascii=False, allow_nan=False)


def plain(value: Any, path: str) -> Any:
    """A value of a field in JSON's types. Raises errors that name the field of a part that has none."""
    if isinstance(value, Mapping):
        return {key: plain(part, f"{path}.{key}" if path else str(key)) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part, f"{path}[{place}]") for place, part in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path}: {value} is no number that a job file can hold")
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):  # numbers of numpy and torch
        return plain(value.item(), path)
    raise TypeError(f"{path}: a job file cannot hold {value!r}")
