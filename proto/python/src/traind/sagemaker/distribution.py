"""SageMaker's `distribution` as keys of the job file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from traind.errors import UnsupportedArgument
from traind.sagemaker.draft import Draft
from traind.sagemaker.tables import (
    DROPPED_OPTIONS,
    LAUNCHER_OPTIONS,
    LAUNCHERS,
    LIBRARIES,
    LIBRARY_OPTIONS,
    MODEL_PARALLEL,
)
from traind.sagemaker.values import CHANGES, is_flag, is_off, parsed

#: Parameters for the number of cores that share weights.
SHARDS = ("sharded_data_parallel_degree", "hybrid_shard_degree")


def job_keys(distribution: Mapping[str, Any] | None) -> Draft:
    """The job file's values by field path."""
    keys = Draft()
    for name, options in _mapping("distribution", distribution or {}).items():
        where = f"distribution[{name!r}]"
        if name == "smdistributed":
            _smdistributed(_mapping(where, options), keys)
        elif name in LAUNCHERS:
            options = _mapping(where, options)
            if _is_enabled(where, options, LAUNCHER_OPTIONS, stacklevel=5):
                keys.merge(processes(f"{where}['processes_per_host']", options.get("processes_per_host")))
        else:
            advice = "jobs are data-parallel over their cores by themselves; leave it out"
            raise _unknown(where, name, [*LAUNCHERS, "smdistributed"], advice)
    return keys


def processes(where: str, number: Any) -> Draft:
    """The cores of a host, each of which SageMaker's launchers give a process."""
    keys, number = Draft(), parsed(number)
    if number is None:
        return keys
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise UnsupportedArgument(where, f"must be a number of processes from 1, not {number!r}")
    keys.set("resources.cores", number, where)
    return keys


def _smdistributed(libraries: Mapping[str, Any], keys: Draft) -> None:
    for name, options in libraries.items():
        where = f"distribution['smdistributed'][{name!r}]"
        if name not in LIBRARIES:
            raise _unknown(where, name, LIBRARIES, f"{' and '.join(LIBRARIES)} are")
        is_enabled = _is_enabled(where, _mapping(where, options), LIBRARY_OPTIONS, stacklevel=6)
        if is_enabled and name == "modelparallel":
            keys.merge(model_parallel(f"{where}['parameters']", options.get("parameters") or {}))


def _is_enabled(within: str, options: Mapping[str, Any], known: Sequence[str], stacklevel: int) -> bool:
    """Whether the options of a launcher or of a library count, of which none is unknown."""
    for name, value in options.items():
        where = f"{within}[{name!r}]"
        if name not in known:
            raise _unknown(where, name, known, "leave it out")
        if name in DROPPED_OPTIONS and not is_off(value):
            warnings.warn(f"{where} has no effect: {DROPPED_OPTIONS[name]}", stacklevel=stacklevel)
    if options and "enabled" not in options:
        raise UnsupportedArgument(within, "has options, but not 'enabled': True; add it, or leave the entry out")
    _check_flag(f"{within}['enabled']", options.get("enabled"))
    return _enabled(options)


def _check_flag(where: str, value: Any) -> None:
    if not is_flag(value):
        raise UnsupportedArgument(where, f"must be true or false, not {value!r}")


def _unknown(where: str, name: str, known: Iterable[str], advice: str) -> UnsupportedArgument:
    """The error about a name, with the known one that it may stand for."""
    nearest = get_close_matches(name, known, n=1, cutoff=0.7)
    return UnsupportedArgument(where, f"is not known here; {f'did you mean {nearest[0]!r}?' if nearest else advice}")


def model_parallel(within: str, parameters: Any) -> Draft:
    """Parameters of the model-parallel library, which its service hands over as JSON in text."""
    keys = Draft()
    parameters = _unpacked(within, parameters)
    given = {name: parsed(value) for name, value in _mapping(within, parameters).items()}
    for name, value in given.items():
        where = f"{within}[{name!r}]"
        rule = MODEL_PARALLEL.get(name)
        if rule is None:
            raise _unknown(where, name, MODEL_PARALLEL.keys(), "leave it out")
        if value is None:
            continue
        if rule.kind == "field":
            keys.set(rule.path, value, where)
        elif rule.kind == "switches":
            _check_flag(where, value)
            if not is_off(value):
                keys.set(rule.path, rule.detail, where)
        elif rule.kind == "changed":
            keys.set(rule.path, CHANGES[rule.detail](value), where)
        elif rule.kind == "dropped":
            warnings.warn(f"{where} has no effect: {rule.detail}", stacklevel=6)
        elif rule.kind == "refused" and not is_off(value):
            raise UnsupportedArgument(where, rule.detail)
        elif name in SHARDS:
            _check_degree(where, value)
        elif rule.kind == "own":
            _check_flag(where, value)
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
