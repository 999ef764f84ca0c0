"""Arguments of SageMaker's estimator that mean nothing here: ignored with a warning where the result is the same,
else refused with what to use instead."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from traind.errors import UnsupportedArgument
from traind.sagemaker import tables
from traind.sagemaker.values import is_off

#: Attributes of SageMaker's estimator that this one lacks, with what stands in for them.
ATTRIBUTES = {
    "training_job_analytics": "metrics() has what a job has logged",
    "jobs": "latest_training_job is the job of the last fit()",
    "create_model": "load model_data with transformers",
    "register": "load model_data with transformers, or push it by the hyperparameter push_to_hub",
    "transformer": "models are not served here; the hyperparameter do_predict writes predictions of data.test",
    "compile_model": "every step of a training is compiled; load model_data with transformers",
    "training_image_uri": "no containers are run",
    "image_uri": "no containers are run",
    "sagemaker_session": "client is the connection to the daemon",
    "role": "the daemon's access file says what a caller may do",
    "instance_type": "job_file() has the platform and the cores, as resources",
    "instance_count": "job_file() has the hosts, as resources",
    "output_path": "model_data is the model folder of the last job",
    "distribution": "job_file() has what it means, as parallel",
    "latest_job_debugger_artifacts_path": "events have the time of each part of a step",
    "latest_job_tensorboard_artifacts_path": "TensorBoard's files are in `runs` of the output folder",
    "latest_job_profiler_artifacts_path": "events have the time of each part of a step",
    "update_profiler": "events have the time of each part of a step",
    "enable_default_profiling": "events have the time of each part of a step",
    "disable_profiling": "events have the time of each part of a step",
    "get_vpc_config": "jobs run on the daemon's host, or on its cluster",
}
_SPOT = "a job whose host is taken away resumes from its newest checkpoint in any case"


def check_others(arguments: Mapping[str, Any]) -> None:
    """Warns of arguments without effect and refuses the others that are no part of this estimator."""
    for name, value in arguments.items():
        rule = tables.ESTIMATOR.get(name)
        if rule is None:
            raise TypeError(f"HuggingFace() has no argument {name!r}")
        if is_off(value):
            continue
        if rule.kind == "refused":
            raise UnsupportedArgument(name, rule.detail)
        warnings.warn(f"{name} has no effect: {rule.detail or _SPOT}", stacklevel=4)


def check_mapping(name: str, value: Any) -> None:
    """Refuses what has no keys."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is a mapping of names to values, not {value!r}")


def check_kinds(**given: tuple[Any, Any]) -> None:
    """Refuses values of another kind than their argument's, such as SageMaker's pipeline variables."""
    for name, (value, kinds) in given.items():
        is_number = kinds is int
        if value is not None and (not isinstance(value, kinds) or is_number and isinstance(value, bool)):
            raise TypeError(f"{name} is {'a whole number' if is_number else 'a text'}, not {value!r}")


def script_of(entry_point: str | None) -> str | None:
    """The example script that is the entry point, if it is one."""
    script = PurePosixPath(entry_point or "").stem
    return script if script in tables.SCRIPTS else None


def task_of(task: str | None, entry_point: str | None) -> str | None:
    """The task, or that of the example script which is the entry point."""
    if entry_point is None:
        return task
    script = script_of(entry_point)
    unsupported = tables.SCRIPTS[script].get("unsupported") if script else None
    if task is None and unsupported is not None:
        raise UnsupportedArgument("entry_point", unsupported)
    if task is None and script is None:
        advice = "no script is run; leave it out, and name what the model learns by task: 'sequence-classification'"
        raise UnsupportedArgument("entry_point", advice)
    if script is None or unsupported is not None:
        warnings.warn(f"entry_point has no effect: {entry_point} is not run", stacklevel=4)
    return task or tables.SCRIPTS[script or ""]["task"]


def usual_of(script: str | None) -> dict[str, Any]:
    """The script's own defaults by field path, where the job file has others."""
    return dict(tables.SCRIPTS[script].get("defaults", {})) if script else {}
