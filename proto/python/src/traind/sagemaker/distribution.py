"""SageMaker's `distribution` as keys of the job file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

from traind.errors import UnsupportedArgument
from traind.sagemaker.draft import Draft
from traind.sagemaker.tables import LAUNCHERS, MODEL_PARALLEL
from traind.sagemaker.values import CHANGES, is_off, parsed

#: Parameters for the number of cores that share weights.
SHARDS = ("sharded_data_parallel_degree", "hybrid_shard_degree")


def job_keys(distribution: Mapping[str, Any] | None) -> tuple[Draft, int | None]:
    """The job file's values by field path, and the number of cores where the distribution says it."""
    keys = Draft()
    cores: int | None = None
    for name, options in _mapping("distribution", distribution or {}).items():
        where = f"distribution[{name!r}]"
        if name == "smdistributed":
            _smdistributed(_mapping(where, options), keys)
        elif name in LAUNCHERS:
            options = _mapping(where, options)
            cores = parsed(options.get("processes_per_host", cores)) if _enabled(options) else cores
        else:
            raise UnsupportedArgument(where, "jobs are data-parallel over their cores by themselves; leave it out")
    return keys, cores


def _smdistributed(libraries: Mapping[str, Any], keys: Draft) -> None:
    for name, options in libraries.items():
        where = f"distribution['smdistributed'][{name!r}]"
        if name == "modelparallel":
            if _enabled(_mapping(where, options)):
                keys.merge(model_parallel(f"{where}['parameters']", options.get("parameters") or {}))
        elif name != "dataparallel":
            raise UnsupportedArgument(where, "is no library known here; modelparallel and dataparallel are")


def model_parallel(within: str, parameters: Any) -> Draft:
    """Parameters of the model-parallel library, which its service hands over as JSON in text."""
    keys = Draft()
    parameters = _unpacked(within, parameters)
    given = {name: parsed(value) for name, value in _mapping(within, parameters).items()}
    for name, value in given.items():
        where = f"{within}[{name!r}]"
        rule = MODEL_PARALLEL.get(name)
        if rule is None:
            raise UnsupportedArgument(where, "is not known here; leave it out")
        if value is None:
            continue
        if rule.kind == "field":
            keys.set(rule.path, value, where)
        elif rule.kind == "switches" and not is_off(value):
            keys.set(rule.path, rule.detail, where)
        elif rule.kind == "changed":
            keys.set(rule.path, CHANGES[rule.detail](value), where)
        elif rule.kind == "dropped":
            warnings.warn(f"{where} has no effect: {rule.detail}", stacklevel=6)
        elif rule.kind == "refused" and not is_off(value):
            raise UnsupportedArgument(where, rule.detail)
        elif name in SHARDS:
            _check_degree(where, value)
    _warn_of_batch(within, given)
    return keys


def _check_degree(where: str, degree: Any) -> None:
    # A degree of 1 and True are equal in Python, and True is no degree.
    if not (degree is False or isinstance(degree, int) and not isinstance(degree, bool)):
        raise UnsupportedArgument(where, f"is a number of GPUs, not {degree!r}")


def _warn_of_batch(within: str, given: Mapping[str, Any]) -> None:
    """Without `prescaled_batch`, cores that share layers have rows of their own in SageMaker, which are gathered."""
    degree = given.get("tensor_parallel_degree") or 1
    if degree not in (1, "1") and is_off(given.get("prescaled_batch")):
        warnings.warn(
            f"{within}['tensor_parallel_degree']: {degree} cores share the rows of a batch, where SageMaker's library, "
            f"without prescaled_batch, gathers one from each; multiply per_device_train_batch_size by {degree} for steps "
            "of as many rows",
            stacklevel=7,
        )


def shards(distribution: Mapping[str, Any] | None, hyperparameters: Mapping[str, Any], cores: int, hosts: int) -> Draft:
    """How weights are shared by as many cores as the parameters say."""
    keys = Draft()
    libraries = (distribution or {}).get("smdistributed") or {}
    library = libraries.get("modelparallel") or {}
    given = _unpacked("hyperparameters['mp_parameters']", hyperparameters.get("mp_parameters") or {})
    parameters = {**(library.get("parameters") or {}), **given} if _enabled(library) else given
    for name in SHARDS:
        degree = parsed(parameters.get(name)) or 0
        if isinstance(degree, int) and degree > 1:
            is_within_hosts = hosts > 1 and degree <= cores
            keys.set("parallel.fsdp", "hybrid_shard" if is_within_hosts else "full_shard", name)
    return keys


def _unpacked(where: str, value: Any) -> Any:
    """A mapping that is given as JSON in text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"{where} is no JSON: {error}") from None


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{where} is a mapping such as {{'enabled': True}}, not {value!r}")
    return value


def _enabled(options: Mapping[str, Any]) -> bool:
    return not is_off(options.get("enabled", False))
