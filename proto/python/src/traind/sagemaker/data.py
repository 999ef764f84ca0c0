"""Hyperparameters that name data and columns, whose meaning depends on each other, as the example scripts read them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from traind.errors import UnsupportedArgument
from traind.sagemaker.draft import Draft
from traind.sagemaker.tables import DATA_SETS, GLUE, SUMMARIES
from traind.sagemaker.values import is_off

_MATCHED = "hf://datasets/nyu-mll/glue/mnli/{}_matched-*.parquet"
#: MNLI has two sets each, of which the first is the usual one.
_SPLITS_OF_MNLI = {"data.validation": _MATCHED.format("validation"), "data.test": _MATCHED.format("test")}
_LANGUAGE_MODELS = ("masked-lm", "causal-lm")
#: The scripts' own defaults.
_EVALUATED_PERCENTAGE = 5
_EVALUATED_IMAGES = 0.15
_TARGET_LENGTH = 128
#: The script that makes one text of several columns; others read two as a pair.
_JOINING = "run_classification"
_COLUMNS = {"text_column": "data.source", "summary_column": "data.target"}


def evaluates(given: Mapping[str, Any]) -> bool:
    """Whether a script evaluates: TrainingArguments sets `do_eval` where `eval_strategy` is not `no`."""
    names = ("do_eval", "eval_strategy", "evaluation_strategy", "strategy")
    return any(not is_off(given.get(name)) for name in names)


def read(given: Mapping[str, Any], task: str | None, script: str | None, draft: Draft) -> None:
    """Sets the fields of data sets, columns, languages and lengths."""
    is_classifier = task in (None, "sequence-classification")
    name = given.get("task_name")
    if name is not None and is_classifier and script in (None, "run_glue"):
        _glue(str(name).lower(), given, draft)
    elif name is not None and task != "token-classification" and "dataset_name" not in given:
        if script is not None:
            _refuse("task_name", f"{script} has no such argument, and does not read the data of {name}; leave it out")
        _refuse("task_name", "names data of a script that is not known; name the files in fit(), and their columns")
    elif "dataset_name" in given:
        for path in _splits(given):
            name = f"{path.partition('.')[2]}_split_name"
            files: Any = _id(str(given["dataset_name"]))
            if name in given:
                files = [{"path": files, "split": str(given[name])}]
            draft.set(path, files, "hyperparameters['dataset_name']")
    _given_columns(given, task, script, draft)
    if task == "token-classification" and script is not None:
        draft.setdefault("data.tokens", "tokens")
        draft.setdefault("data.labels", f"{given.get('task_name', 'ner')}_tags")
    if task == "seq2seq-lm":
        _texts_to_write(given, script, draft)


def read_splits(given: Mapping[str, Any], task: str | None, script: str | None, draft: Draft) -> None:
    """Sets what depends on the files of the splits."""
    if "data.validation" not in draft:
        if task in _LANGUAGE_MODELS and evaluates(given):
            draft.setdefault(
                "data.validation_split", _number("validation_split_percentage", given, _EVALUATED_PERCENTAGE) / 100
            )
        elif task == "image-classification" and (script is not None or "train_val_split" in given):
            draft.setdefault("data.validation_split", _number("train_val_split", given, _EVALUATED_IMAGES))
    limits = {"train": "train", "eval": "validation", "predict": "test"}
    for name, split in limits.items():
        _limit(f"max_{name}_samples", f"data.{split}", given, task, draft)


def _limit(name: str, path: str, given: Mapping[str, Any], task: str | None, draft: Draft) -> None:
    """Limits the rows of a split, where the script takes the first rows as they are in the files."""
    count = given.get(name)
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise TypeError(f"hyperparameters[{name!r}] is a number of rows from 1, not {count!r}")
    is_drawn = path == "data.train" and not is_off(given.get("shuffle_train_dataset"))
    if task in ("sequence-classification", "token-classification", "seq2seq-lm") and not is_drawn:
        if path in draft:
            files = draft[path]
            is_set = isinstance(files, list) and len(files) == 1 and isinstance(files[0], Mapping)
            draft[path] = [{**(files[0] if is_set else {"path": files}), "limit": count}]
        else:
            warnings.warn(f"the hyperparameter {name} has no effect: there is no {path} that it limits", stacklevel=5)
    else:
        advice = "counts what the script makes of the rows, or rows that it draws; use train.max_steps, or files with fewer rows"
        _refuse(name, advice)


def _splits(given: Mapping[str, Any]) -> list[str]:
    """The splits of a data set that the script would read, by their field path."""
    wanted = {"data.train": True, "data.validation": evaluates(given), "data.test": not is_off(given.get("do_predict"))}
    return [path for path, is_read in wanted.items() if is_read]


def _id(name: str) -> str:
    found = name if "/" in name else DATA_SETS.get(name)
    if found is None:
        _refuse(
            "dataset_name", f"{name!r} is not an id of the hub such as 'org/name'; give it in fit() or as data.train"
        )
    return str(found)


def _glue(name: str, given: Mapping[str, Any], draft: Draft) -> None:
    """The data of one of GLUE's tasks; other scripts have tasks of other data sets."""
    if name not in GLUE:
        advice = f"{name!r} is none of GLUE's tasks ({', '.join(GLUE)}); name the files in fit() or a data set by "
        _refuse("task_name", advice + "dataset_name, and its columns")
    where = "hyperparameters['task_name']"
    columns, labels = GLUE[name]
    own = _SPLITS_OF_MNLI if name == "mnli" else {}
    for path in _splits(given):
        draft.set(path, own.get(path, DATA_SETS["glue"]), where)
    draft.set("data.dataset_config_name", name, where)
    for path, column in zip(("data.text", "data.text_pair"), columns):
        draft.set(path, column, where)
    draft.set("model.num_labels", labels, where)


def _given_columns(given: Mapping[str, Any], task: str | None, script: str | None, draft: Draft) -> None:
    of_tokens = task == "token-classification"
    if "label_column_name" in given and task != "image-classification":
        path = "data.labels" if of_tokens else "data.label"
        draft.set(path, str(given["label_column_name"]), "hyperparameters['label_column_name']")
    for name in ("text_column_name", "text_column_names"):
        if name not in given:
            continue
        columns = [column.strip() for column in str(given[name]).split(",")]
        if of_tokens:
            columns, paths = [str(given[name])], ["data.tokens"]
        else:
            paths = ["data.text", "data.text_pair"]
        if script == _JOINING and len(columns) > 1:
            advice = "joins the texts of the columns; join them in a column of the file, and name that one"
            _refuse(name, f"{script} {advice}")
        if len(columns) > len(paths):
            _refuse(name, "a row has one text or two; name two columns, or join them in the file")
        for path, column in zip(paths, columns):
            draft.set(path, column, f"hyperparameters[{name!r}]")


def _texts_to_write(given: Mapping[str, Any], script: str | None, draft: Draft) -> None:
    """Columns or languages, and the lengths of texts that are generated."""
    known = SUMMARIES.get(str(given.get("dataset_name", "")).rpartition("/")[2])
    for index, (name, path) in enumerate(_COLUMNS.items()):
        if name in given:
            draft.set(path, str(given[name]), f"hyperparameters[{name!r}]")
        elif known is not None and script != "run_translation":
            draft.setdefault(path, known[index])
        elif script == "run_summarization" and path not in draft:
            _refuse(name, f"the script takes the file's column {index}; give its name, or that of {path}")
    for name in ("source_lang", "target_lang"):
        if name in given:
            draft.set(f"data.{name}", str(given[name]), f"hyperparameters[{name!r}]")
        elif script == "run_translation":
            _refuse(name, "says which text of `translation` is read; give a language of the rows, such as 'en'")
    training = given.get("max_target_length", _TARGET_LENGTH)
    evaluation = given.get("val_max_target_length")
    if not is_off(given.get("predict_with_generate")):
        draft.setdefault("train.generation_max_length", evaluation or training)
    if evaluation not in (None, training):
        warnings.warn(
            "val_max_target_length is the most tokens of a generated text; targets are cut at max_target_length "
            "throughout",
            stacklevel=5,
        )


def _number(name: str, given: Mapping[str, Any], usual: float) -> float:
    value = given.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"hyperparameters[{name!r}] is a number, not {value!r}")
    return value


def _refuse(name: str, advice: str) -> None:
    raise UnsupportedArgument(f"hyperparameters[{name!r}]", advice)
