"""Hyperparameters of SageMaker's scripts and of transformers' example scripts as keys of the job file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from traind.errors import UnsupportedArgument
from traind.sagemaker import data_sets, glue

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
    "ignore_mismatched_sizes": "model.ignore_mismatched_sizes",
    "train_file": "data.train",
    "validation_file": "data.validation",
    "test_file": "data.test",
    "dataset_config_name": "data.dataset_config_name",
    "dataset_config": "data.dataset_config_name",
    "shuffle_seed": "train.data_seed",
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
    "ignore_pad_token_for_loss": "data.ignore_pad_token_for_loss",
    "val_max_target_length": "train.generation_max_length",
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
    "activation_checkpointing": "train.gradient_checkpointing",
}
#: Names that mean something else for a task.
_KEYS_OF_TASK = {
    "token-classification": {"text_column_name": "data.tokens", "label_column_name": "data.labels"},
}
_DTYPE = "trained weights are float32; bf16 computes in bfloat16"
_TOKEN = "the daemon's HF_TOKEN is used"
#: Names that say where SageMaker's container has its folders, or how preprocessing is spread: of no effect here.
_NO_EFFECT = {
    "output_dir": "the model is written to output_path",
    "model_dir": "the model is written to output_path",
    "output_data_dir": "the model is written to output_path",
    "overwrite_output_dir": "each job has an output folder of its own",
    "overwrite_cache": "cached rows are found by their content",
    "preprocessing_num_workers": "rows are tokenized on all of the host's processors",
    "use_fast_tokenizer": "all tokenizers are fast ones",
    "return_entity_level_metrics": "entity metrics are those of all entities",
    "metric_name": "all metrics of the task are computed",
    "shuffle_train_dataset": "train_sampling_strategy sets the order of rows",
    "low_cpu_mem_usage": "weights are mapped from their file",
    "torch_dtype": _DTYPE,
    "dtype": _DTYPE,
    "attn_implementation": "attention is part of the compiled step",
    "do_lower_case": "the tokenizer's own files decide it",
    "token": _TOKEN,
    "hub_token": _TOKEN,
    "use_auth_token": _TOKEN,
    "streaming": "rows are tokenized on all of the host's processors",
    "remove_columns": "columns without a use are not read",
    "cache_dir": "the daemon's cache holds what is fetched",
    "trust_remote_code": "no code of models is run; a model that needs its own is refused",
}
_ALL_ROWS = "all rows are read; give smaller files, or use max_steps"
_SCRATCH = "give the folder with config.json as model, and model.from_config to begin with random weights"
_LANGUAGES = "name the files of each language in fit()"
_PROCESSOR = "the processor is the model's; put preprocessor_config.json into the model folder"
_REFUSED = {
    "config_name": _SCRATCH,
    "max_train_samples": _ALL_ROWS,
    "max_eval_samples": _ALL_ROWS,
    "max_predict_samples": _ALL_ROWS,
    "model_type": _SCRATCH,
    "language": _LANGUAGES,
    "train_language": _LANGUAGES,
    "lang": "languages are set by source_lang and target_lang",
    "remove_splits": "name the files of the splits",
    "image_processor_name": _PROCESSOR,
    "feature_extractor_name": _PROCESSOR,
    "resize_position_embeddings": "the model's positions stay as they are; use max_source_length",
    "forced_bos_token": "set train.generation_config.forced_bos_token_id to the token's id",
    "validation_split_percentage": "give a fraction as data.validation_split",
}
#: Fields whose values are texts.
_TEXTS = {
    "name_or_path",
    "revision",
    "task",
    "dataset_config_name",
    "hub_model_id",
    "image",
    "label",
    "labels",
    "messages",
    "project",
    "prompt",
    "run_name",
    "source",
    "source_lang",
    "source_prefix",
    "target",
    "target_lang",
    "test",
    "text",
    "text_pair",
    "tokens",
}
_CHANNEL = re.compile(r"/opt/ml/input/data/([^/]+)/?(.*)")


def job_keys(
    hyperparameters: Mapping[str, Any], channels: Mapping[str, Any], task: str | None = None
) -> dict[str, Any]:
    """The job file's values by field path. A name with a dot is a field path already.

    `task` is the estimator's; without one, a hyperparameter may name it.
    """
    task = task or hyperparameters.get("task") or hyperparameters.get("model.task")
    names = {**_KEYS, **_KEYS_OF_TASK.get(str(task), {})}
    keys: dict[str, Any] = {}
    for name in hyperparameters:
        if not isinstance(name, str):
            raise TypeError(f"hyperparameters[{name!r}]: a hyperparameter has a name such as 'epochs'")
        if name in _REFUSED:
            raise UnsupportedArgument(f"hyperparameters[{name!r}]", _REFUSED[name])
        if name in _NO_EFFECT:
            warnings.warn(f"the hyperparameter {name} has no effect: {_NO_EFFECT[name]}", stacklevel=4)
            continue
        for path, part in _fields(name, hyperparameters, names, task):
            if path in keys:
                raise ValueError(f"hyperparameters[{name!r}]: {path} is given twice")
            keys[path] = _value(path, part, channels)
    return keys


def _fields(
    name: str, hyperparameters: Mapping[str, Any], names: Mapping[str, str], task: str | None
) -> list[tuple[str, Any]]:
    """Returns the fields that a hyperparameter sets: several, where it names data or columns."""
    value = hyperparameters[name]
    if name == "dataset_name":
        return data_sets.splits(value, hyperparameters)
    if name == "task_name":
        return _of_task(str(value).lower(), hyperparameters, task)
    if name == "tokenizer_name":
        return _without_own_tokenizer(value, hyperparameters)
    if name == "text_column_names":
        columns = [column.strip() for column in str(value).split(",")]
        if len(columns) > 2:
            raise UnsupportedArgument(f"hyperparameters[{name!r}]", "a row has one text or two")
        return list(zip(("data.text", "data.text_pair"), columns))
    if name in ("strategy", "steps"):
        # Scripts of notebooks evaluate and save in one rhythm.
        return [(f"train.{what}_{name}", value) for what in ("eval", "save")]
    if name == "do_regression":
        kind = "regression" if parsed(str(value)) is True else "single_label_classification"
        return [("model.problem_type", kind)]
    return [(name if "." in name else names.get(name, f"train.{name}"), value)]


def _of_task(name: str, hyperparameters: Mapping[str, Any], task: str | None) -> list[tuple[str, Any]]:
    """The data of one of GLUE's tasks; other scripts have tasks of other data sets."""
    if name in glue.TASKS and task in (None, "sequence-classification"):
        return glue.fields(name, hyperparameters)
    advice = f"{name!r} is none of GLUE's tasks ({', '.join(glue.TASKS)}); name the files in fit() or a data set by "
    raise UnsupportedArgument("hyperparameters['task_name']", advice + "dataset_name, and its columns")


def _without_own_tokenizer(name: Any, hyperparameters: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """No field: the tokenizer is the model's, and another one is refused."""
    models = [hyperparameters.get(key) for key, path in _KEYS.items() if path == "model.name_or_path"]
    if name in models:
        return []
    raise UnsupportedArgument("hyperparameters['tokenizer_name']", "the tokenizer is the model's")


def _value(path: str, value: Any, channels: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    match = _CHANNEL.fullmatch(value)
    if match is not None:
        return _of_channel(path, match, channels)
    # Names of columns, files and models are texts, whatever they look like.
    return value if path.rpartition(".")[2] in _TEXTS or path in ("data.train", "data.validation") else parsed(value)


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
    if not text.strip()[:1].isdigit() and text.strip()[:1] not in ("+", "-", "."):
        # "nan" and "inf" are names as likely as numbers.
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
