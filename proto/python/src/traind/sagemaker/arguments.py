"""Arguments of SageMaker's estimator that mean nothing here: ignored with a warning where the result is the same,
else refused with what to use instead."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from traind.errors import UnsupportedArgument

_NO_EFFECT = {
    "role": "the daemon's access file says what a caller may do",
    "sagemaker_session": "the client is the connection",
    "transformers_version": "models run natively, as transformers 5 defines them",
    "pytorch_version": "models run natively",
    "py_version": "no Python runs where a job trains",
    "source_dir": "no script is run",
    "git_config": "no script is run",
    "volume_size": "the daemon checks the room on its own disk",
    "tags": "a job has a name",
    "compiler_config": "every step is compiled",
    "metric_definitions": "metrics() has all metrics by the Trainer's names",
    "enable_sagemaker_metrics": "metrics() has all metrics by the Trainer's names",
    "debugger_hook_config": "events have the time of each part of a step",
    "rules": "events have the time of each part of a step",
    "profiler_config": "events have the time of each part of a step",
    "disable_profiler": "events have the time of each part of a step",
    "keep_alive_period_in_seconds": "the daemon keeps what was compiled",
    "input_mode": "data are fetched once into the daemon's cache",
    "container_log_level": "logs() has all lines",
    "disable_output_compression": "the output is a folder",
    "checkpoint_local_path": "checkpoints that go to checkpoint_s3_uri are staged in the job's own folder",
    "container_arguments": "no script is run",
    "container_entry_point": "no script is run",
    "max_retry_attempts": "a job whose host is taken away resumes from its newest checkpoint in any case",
    "training_repository_access_mode": "no containers are run",
    "training_repository_credentials_provider_arn": "no containers are run",
    "enable_infra_check": "doctor checks the host",
    "enable_remote_debug": "no containers are run",
    "enable_session_tag_chaining": "the daemon's access file says what a caller may do",
    "tensorboard_output_config": "TensorBoard's files are in `runs` of the output folder",
    "model_channel_name": "use model",
    "instance_placement_config": "the daemon places jobs",
    "use_spot_instances": "a job whose host is taken away resumes from its newest checkpoint in any case",
}
_REFUSED = {
    "image_uri": "no containers are run on the daemon's host; on a cluster, use hyperparameters 'kubernetes.image'",
    "tensorflow_version": "models are read from safetensors alone",
    "environment": "set the variables of the daemon's service",
    "dependencies": "no script is run",
    "code_location": "no script is run",
    "subnets": "jobs run on the daemon's host, or on its cluster",
    "security_group_ids": "jobs run on the daemon's host, or on its cluster",
    "encrypt_inter_container_traffic": "jobs run on the daemon's host, or on its cluster",
    "enable_network_isolation": "use serve --allow-url on the daemon's side",
    "output_kms_key": "the output is a folder of the daemon's host",
    "volume_kms_key": "the output is a folder of the daemon's host",
    "model_uri": "use model",
    "instance_groups": "all hosts of a job are alike; use instance_type and instance_count",
    "training_recipe": "no recipes are run; name what the model learns by task, and hyperparameters",
    "recipe_overrides": "no recipes are run; name what the model learns by task, and hyperparameters",
    "training_plan": "the daemon's host is there already",
}
#: transformers' example scripts with what they train.
_SCRIPTS = {
    "run_glue": "sequence-classification",
    "run_classification": "sequence-classification",
    "run_xnli": "sequence-classification",
    "run_ner": "token-classification",
    "run_qa": "question-answering",
    "run_mlm": "masked-lm",
    "run_clm": "causal-lm",
    "run_summarization": "seq2seq-lm",
    "run_translation": "seq2seq-lm",
    "run_image_classification": "image-classification",
}
#: Example scripts whose training is not supported, with the reason.
_UNSUPPORTED = {
    "run_seq2seq_qa": "answers that are written are texts: use task='seq2seq-lm', and name the columns data.source and "
    "data.target",
    "run_mim": "models of masked images are not supported",
    "run_audio_classification": "models of sound are not supported yet; the tasks here read text and images",
    "run_swag": "multiple choice is not supported yet",
    "run_plm": "permutation language models are not supported; run_mlm and run_clm are",
    "run_fim": "filling in the middle is not supported; run_clm is",
}
_CLASSIFIER: dict[str, Any] = {"data.max_length": 128}
_WRITER: dict[str, Any] = {"data.max_source_length": 1024}
#: A script's own defaults, where the job file has others.
_USUAL: dict[str, dict[str, Any]] = {
    "run_glue": _CLASSIFIER,
    "run_classification": _CLASSIFIER,
    "run_xnli": _CLASSIFIER,
    "run_ner": {"data.labels": "ner_tags"},
    "run_summarization": _WRITER,
    "run_translation": _WRITER,
}


def check_others(arguments: Mapping[str, Any]) -> None:
    """Warns of arguments without effect and refuses the others that are no part of this estimator."""
    for name, value in arguments.items():
        if name in _NO_EFFECT:
            if value not in (None, False):
                warnings.warn(f"{name} has no effect: {_NO_EFFECT[name]}", stacklevel=4)
        elif name in _REFUSED:
            if value:
                raise UnsupportedArgument(name, _REFUSED[name])
        else:
            raise TypeError(f"HuggingFace() has no argument {name!r}")


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


def task_of(task: str | None, entry_point: str | None) -> str | None:
    """The task, or that of the example script which is the entry point."""
    if entry_point is None:
        return task
    script = PurePosixPath(entry_point).stem
    known = _SCRIPTS.get(script)
    if task is None and script in _UNSUPPORTED:
        raise UnsupportedArgument("entry_point", _UNSUPPORTED[script])
    if task is None and known is None:
        advice = "no script is run; leave it out, and name what the model learns by task: 'sequence-classification'"
        raise UnsupportedArgument("entry_point", advice)
    if known is None:
        warnings.warn(f"entry_point has no effect: {entry_point} is not run", stacklevel=4)
    return task or known


def usual_of(entry_point: str | None) -> dict[str, Any]:
    """The script's own defaults by field path, where the job file has others."""
    return dict(_USUAL.get(PurePosixPath(entry_point or "").stem, {}))
