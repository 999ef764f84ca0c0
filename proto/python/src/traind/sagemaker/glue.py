"""The tasks of GLUE, which `run_glue` names by `task_name`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traind.sagemaker import data_sets

#: The columns of text and the number of labels, by task.
TASKS = {
    "cola": (["sentence"], 2),
    "mnli": (["premise", "hypothesis"], 3),
    "mrpc": (["sentence1", "sentence2"], 2),
    "qnli": (["question", "sentence"], 2),
    "qqp": (["question1", "question2"], 2),
    "rte": (["sentence1", "sentence2"], 2),
    "sst2": (["sentence"], 2),
    "stsb": (["sentence1", "sentence2"], 1),
    "wnli": (["sentence1", "sentence2"], 2),
}
#: MNLI has two sets each, of which the first is the usual one.
_MATCHED = "hf://datasets/nyu-mll/glue/mnli/{}_matched-*.parquet"
_SPLITS_OF_MNLI = {"data.validation": _MATCHED.format("validation"), "data.test": _MATCHED.format("test")}


def fields(task: str, hyperparameters: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns the fields of one of TASKS: the splits that the script would read, columns and labels."""
    columns, labels = TASKS[task]
    own = _SPLITS_OF_MNLI if task == "mnli" else {}
    splits = [(path, own.get(path, name)) for path, name in data_sets.splits("glue", hyperparameters)]
    texts = list(zip(("data.text", "data.text_pair"), columns))
    return [*splits, ("data.dataset_config_name", task), *texts, ("model.num_labels", labels)]
