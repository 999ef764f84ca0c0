"""Hyperparameters of SageMaker's scripts and of transformers' example scripts as keys of the job file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from traind.errors import UnsupportedArgument

#: Names that scripts of SageMaker's notebooks have, and those of the examples' model and data arguments. All others
#: are TrainingArguments, which the job file has under `train`.
_KEYS = {
    "model_name_or_path": "model.name_or_path",
    "model_name": "model.name_or_path",
    "model_id": "model.name_or_path",
    "model_revision": "model.revision",
    "task": "model.task",
    "num_labels": "model.num_labels",
    "problem_type": "model.problem_type",
    "config_overrides": "model.config_overrides",
    "train_file": "data.train",
    "validation_file": "data.validation",
    "test_file": "data.test",
    "dataset_name": "data.train",
    "dataset_config_name": "data.dataset_config_name",
    "text_column_name": "data.text",
    "label_column_name": "data.label",
    "max_seq_length": "data.max_length",
    "max_length": "data.max_length",
    "pad_to_max_length": "data.pad_to_max_length",
    "pad_to_multiple_of": "data.pad_to_multiple_of",
    "label_all_tokens": "data.label_all_tokens",
    "doc_stride": "data.doc_stride",
    "version_2_with_negative": "data.version_2_with_negative",
    "n_best_size": "data.n_best_size",
    "max_answer_length": "data.max_answer_length",
    "null_score_diff_threshold": "data.null_score_diff_threshold",
    "block_size": "data.block_size",
    "line_by_line": "data.line_by_line",
    "mlm_probability": "data.mlm_probability",
    "keep_linebreaks": "data.keep_linebreaks",
    "label_map": "data.label_map",
    "text_column": "data.source",
    "summary_column": "data.target",
    "source_lang": "data.source_lang",
    "target_lang": "data.target_lang",
    "source_prefix": "data.source_prefix",
    "max_source_length": "data.max_source_length",
    "max_target_length": "data.max_target_length",
    "num_beams": "train.generation_num_beams",
    "train_dir": "data.train",
    "validation_dir": "data.validation",
    "train_val_split": "data.validation_split",
    "image_column_name": "data.image",
    "epochs": "train.num_train_epochs",
    "num_epochs": "train.num_train_epochs",
    "train_batch_size": "train.per_device_train_batch_size",
    "batch_size": "train.per_device_train_batch_size",
    "eval_batch_size": "train.per_device_eval_batch_size",
    "lr": "train.learning_rate",
    "save_strategy": "train.save_strategy",
}
#: Names that say where SageMaker's container has its folders, or how preprocessing is spread: of no effect here.
_NO_EFFECT = {
    "output_dir": "the model is written to output_path",
    "model_dir": "the model is written to output_path",
    "output_data_dir": "the model is written to output_path",
    "overwrite_output_dir": "each job has an output folder of its own",
    "overwrite_cache": "cached rows are found by their content",
    "preprocessing_num_workers": "rows are tokenized on all of the host's processors",
    "use_fast_tokenizer": "all tokenizers are fast ones",
    "cache_dir": "the daemon's cache holds what is fetched",
}
_REFUSED = {
    "task_name": "name the files in fit() or a data set by dataset_name, and the columns by data.text and data.label",
    "tokenizer_name": "the tokenizer is the model's",
    "config_name": "give the folder with config.json as model, and model.from_config to begin with random weights",
    "trust_remote_code": "no code of models is run",
}
_CHANNEL = re.compile(r"/opt/ml/input/data/([^/]+)/?(.*)")


def job_keys(hyperparameters: Mapping[str, Any], channels: Mapping[str, Any]) -> dict[str, Any]:
    """The job file's values by field path. A name with a dot is a field path already."""
    keys: dict[str, Any] = {}
    for name, value in hyperparameters.items():
        if name in _REFUSED:
            raise UnsupportedArgument(f"hyperparameters[{name!r}]", _REFUSED[name])
        if name in _NO_EFFECT:
            warnings.warn(f"the hyperparameter {name} has no effect: {_NO_EFFECT[name]}", stacklevel=4)
            continue
        path = name if "." in name else _KEYS.get(name, f"train.{name}")
        if path in keys:
            raise ValueError(f"hyperparameters[{name!r}]: {path} is given twice")
        keys[path] = _value(path, value, channels)
    return keys


def _value(path: str, value: Any, channels: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    match = _CHANNEL.fullmatch(value)
    if match is not None:
        return _of_channel(path, match, channels)
    return value if path.startswith(("data.", "model.")) and not value.strip().isdigit() else parsed(value)


def _of_channel(path: str, match: re.Match[str], channels: Mapping[str, Any]) -> str:
    """A file that SageMaker's container would find in the folder of a channel."""
    channel, rest = match.groups()
    if not isinstance(channels.get(channel), str):
        raise ValueError(f"{path}: fit() is given no channel {channel!r}")
    return "/".join(filter(None, [channels[channel].rstrip("/"), rest]))


def parsed(text: str) -> Any:
    """A value that SageMaker would hand to a script as text: "True", "3e-5"."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
