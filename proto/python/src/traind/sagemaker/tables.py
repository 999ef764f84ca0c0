"""The tables that `traind convert` reads too, from `tables.json`: scripts with their arguments, SageMaker's names,
instances, and data sets by the names that examples have for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

_TABLES: dict[str, Any] = json.loads(files("traind.sagemaker").joinpath("tables.json").read_text("utf-8"))

#: transformers' example scripts: their task and defaults, or why they are not supported.
SCRIPTS: dict[str, dict[str, Any]] = _TABLES["scripts"]
#: Entries of `distribution` that start one process a device, which is how every job runs, and the keys of these.
LAUNCHERS: list[str] = _TABLES["distribution"]["launchers"]
LAUNCHER_OPTIONS: list[str] = _TABLES["distribution"]["launcher_options"]
#: Entries of `smdistributed`, and their keys.
LIBRARIES: list[str] = _TABLES["distribution"]["libraries"]
LIBRARY_OPTIONS: list[str] = _TABLES["distribution"]["library_options"]
#: Keys of both that have no equivalent, with the reason.
DROPPED_OPTIONS: dict[str, str] = _TABLES["distribution"]["dropped"]
#: Families of instances, with their platform and their cores by size.
INSTANCES: dict[str, dict[str, Any]] = _TABLES["instances"]
#: Names of channels by split.
CHANNELS: dict[str, list[str]] = _TABLES["channels"]
#: Short names of data sets on the hub, with today's ids.
DATA_SETS: dict[str, str] = _TABLES["data_sets"]
#: GLUE's tasks, with their columns of text and the number of labels.
GLUE: dict[str, tuple[list[str], int]] = _TABLES["glue"]
#: Columns of source and target by data set.
SUMMARIES: dict[str, list[str]] = _TABLES["summaries"]
#: Fields of the job file whose values are texts, whatever they look like.
TEXTS: frozenset[str] = frozenset(_TABLES["texts"])
#: Arguments of scripts whose values are texts, and that are read by themselves.
TEXT_ARGUMENTS: frozenset[str] = frozenset(_TABLES["text_arguments"])


class Rule(NamedTuple):
    """The treatment of a key: "field", "changed", "switch", "dropped", "refused" or "own"."""

    kind: str
    #: The field that it sets.
    path: str = ""
    #: The name of a change, the value of a switch, or the reason.
    detail: Any = None


class Rules:
    """Keys by what becomes of them."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        rules = {key: Rule("field", path) for key, path in table.get("fields", {}).items()}
        for kind in ("changed", "switches"):
            for key, (path, detail) in table.get(kind, {}).items():
                rules[key] = Rule(kind, path, detail)
        for kind in ("dropped", "refused"):
            for reason, keys in table.get(kind, ()):
                rules.update({key: Rule(kind, detail=reason) for key in keys})
        for key in (*table.get("own", ()), *table.get("silent", ())):
            rules[key] = Rule("own")
        self._rules = rules

    def get(self, key: str) -> Rule | None:
        """The rule of a key; none for a key that is not known."""
        return self._rules.get(key)

    def keys(self) -> Iterable[str]:
        """The keys that are known."""
        return self._rules.keys()


#: Arguments of SageMaker's estimator.
ESTIMATOR = Rules(_TABLES["estimator"])
#: Parameters of SageMaker's model-parallel library.
MODEL_PARALLEL = Rules(_TABLES["model_parallel"])
#: Names of hyperparameters that scripts of notebooks have, and SageMaker's own.
HYPERPARAMETERS = Rules(_TABLES["hyperparameters"])
#: Names that TrainingArguments had in earlier versions.
_FORMER = Rules(_TABLES["former"])
#: Arguments of optimum-neuron's trainers besides TrainingArguments.
_NEURON = Rules(_TABLES["neuron"])
#: Model and data arguments of the example scripts.
_SCRIPTS = [Rules(_TABLES["arguments"][name]) for name in ("model", "data")]
_OF_TASK = {name: Rules(_TABLES["arguments"][name]) for name in ("seq2seq-lm", "image-classification")}


def hyperparameters_of(task: str | None) -> Sequence[Rules]:
    """The tables of a task's hyperparameters, of which the first that has a name counts."""
    own = [_OF_TASK[task]] if task in _OF_TASK else []
    return [HYPERPARAMETERS, *own, *_SCRIPTS, _FORMER, _NEURON]
