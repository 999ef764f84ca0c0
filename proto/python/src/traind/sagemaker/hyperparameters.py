"""Hyperparameters of SageMaker's scripts and of transformers' example scripts as keys of the job file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from traind.errors import UnsupportedArgument
from traind.sagemaker import data, distribution
from traind.sagemaker.draft import Draft
from traind.sagemaker.tables import TEXT_ARGUMENTS, TEXTS, Rule, hyperparameters_of
from traind.sagemaker.values import CHANGES, is_off, parsed

_CHANNEL = re.compile(r"/opt/ml/input/data/([^/]+)/?(.*)")
#: The number of MPI's processes on each host, as the service hands it to the container.
_PROCESSES = "sagemaker_mpi_num_of_processes_per_host"
_MODELS = ("model_name_or_path", "model_name", "model_id")


def job_keys(
    hyperparameters: Mapping[str, Any],
    channels: Mapping[str, Any],
    task: str | None = None,
    script: str | None = None,
) -> Draft:
    """The job file's values by field path. A name with a dot is a field path already.

    `task` is the estimator's; without one, a hyperparameter may name it. `script` is the example script that the entry
    point is.
    """
    given = values(hyperparameters)
    named = task or given.get("task") or given.get("model.task")
    task = str(named) if named else None
    draft = Draft()
    for name in given:
        _set(name, _of_channel(name, hyperparameters[name], channels), task, draft)
    if not is_off(given.get("tokenizer_name")):
        _check_tokenizer(given)
    if not is_off(given.get("model_type")):
        warnings.warn("the hyperparameter model_type has no effect: the model's config.json says it", stacklevel=5)
    if "mp_parameters" in given:
        draft.update(distribution.model_parallel("hyperparameters['mp_parameters']", given["mp_parameters"]))
    draft.merge(distribution.processes(f"hyperparameters[{_PROCESSES!r}]", given.get(_PROCESSES)))
    data.read(given, task, script, draft)
    return draft


def values(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters that are given, as values rather than as texts of them."""
    for name in hyperparameters:
        if not isinstance(name, str):
            raise TypeError(f"hyperparameters[{name!r}]: a hyperparameter has a name such as 'epochs'")
    read = {name: parsed(value) for name, value in hyperparameters.items()}
    # Names of columns are texts, whatever they look like.
    found = {
        name: hyperparameters[name] if name in TEXT_ARGUMENTS and value is not None else value
        for name, value in read.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def _set(name: str, value: Any, task: str | None, draft: Draft) -> None:
    """Sets the field of a hyperparameter by its rule; without one, it is one of TrainingArguments."""
    found = (table.get(name) for table in hyperparameters_of(task))
    rule = next(filter(None, found), Rule("field", name if "." in name else f"train.{name}"))
    where = f"hyperparameters[{name!r}]"
    # Names of columns, files and models are texts, whatever they look like.
    value = value if rule.path in TEXTS or rule.path in ("data.train", "data.validation") else parsed(value)
    if rule.kind == "field":
        draft.set(rule.path, value, where)
    elif rule.kind == "changed":
        draft.set(rule.path, CHANGES[rule.detail](value), where)
    elif rule.kind == "switches" and not is_off(value):
        draft.set(rule.path, rule.detail, where)
    elif rule.kind == "dropped" and not is_off(value):
        warnings.warn(f"the hyperparameter {name} has no effect: {rule.detail}", stacklevel=5)
    elif rule.kind == "refused" and not is_off(value):
        raise UnsupportedArgument(where, rule.detail)
    elif name in ("strategy", "steps") and not is_off(value):
        # Scripts of notebooks evaluate and save in one rhythm.
        for what in ("eval", "save"):
            draft.set(f"train.{what}_{name}", value, where)
    elif name == "output_dir":
        warnings.warn("the hyperparameter output_dir has no effect: the model is written to output_path", stacklevel=5)


def _check_tokenizer(given: Mapping[str, Any]) -> None:
    """The tokenizer is the model's, and another one is refused."""
    if given["tokenizer_name"] not in [given.get(name) for name in _MODELS]:
        advice = "the tokenizer is the model's; put its files into the model folder, and leave it out"
        raise UnsupportedArgument("hyperparameters['tokenizer_name']", advice)


def _of_channel(name: str, value: Any, channels: Mapping[str, Any]) -> Any:
    """A file that SageMaker's container would find in the folder of a channel; other values as they are."""
    match = _CHANNEL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    channel, rest = match.groups()
    if not isinstance(channels.get(channel), str):
        raise ValueError(f"hyperparameters[{name!r}]: fit() is given no channel {channel!r}")
    return "/".join(filter(None, [channels[channel].rstrip("/"), rest]))
