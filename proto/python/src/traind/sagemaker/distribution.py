"""SageMaker's `distribution` as keys of the job file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from traind.errors import UnsupportedArgument
from traind.sagemaker.hyperparameters import parsed

_MODEL_PARALLEL = {
    "pipeline_parallel_degree": "parallel.pipeline",
    "partitions": "parallel.pipeline",
    "tensor_parallel_degree": "parallel.tensor",
    "microbatches": "parallel.microbatches",
    "shard_optimizer_state": "parallel.shard_optimizer_state",
    "placement_strategy": "parallel.placement",
    "sequence_parallel": "parallel.sequence_parallel",
    "sequence_parallel_enabled": "parallel.sequence_parallel",
    "activation_loading_horizon": "parallel.activation_loading_horizon",
    "bf16": "train.bf16",
    "fp16": "train.fp16",
    "fp16_params": "train.fp16",
}
#: Names of both versions of SageMaker's library for keeping activations in host memory.
_OFFLOADING = ("offload_activations", "sm_activation_offloading")
#: How SageMaker's library does it, with the same results.
_NO_EFFECT = (
    "active_microbatches",
    "auto_partition",
    "contiguous",
    "ddp",
    "ddp_dist_backend",
    "ddp_port",
    "default_partition",
    "delayed_parameter_initialization",
    "fast_mode",
    "load_partition",
    "memory_weight",
    "optimize",
    "partition_file",
    "pipeline",
    "skip_tracing",
    "static_mode",
    "tensor_parallel_seed",
)
_REFUSED = {
    "horovod": "data parallelism needs no library here; leave it out",
    "prescaled_batch": "per_device_train_batch_size counts the rows of a core and batch",
}
#: Ways to start one process a device, which is how every job runs.
_LAUNCHERS = ("torch_distributed", "pytorchddp", "pytorchxla", "mpi")


def job_keys(distribution: Mapping[str, Any] | None) -> tuple[dict[str, Any], int | None]:
    """The job file's values by field path, and the number of cores where the distribution says it."""
    keys: dict[str, Any] = {}
    cores: int | None = None
    for name, options in _mapping("distribution", distribution or {}).items():
        where = f"distribution[{name!r}]"
        if name == "smdistributed":
            keys.update(_smdistributed(_mapping(where, options)))
        elif name in _LAUNCHERS:
            options = _mapping(where, options)
            cores = options.get("processes_per_host", cores) if _enabled(options) else cores
        else:
            raise UnsupportedArgument(where, "jobs are data-parallel over their cores by themselves; leave it out")
    return keys, cores


def _smdistributed(libraries: Mapping[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for name, options in libraries.items():
        where = f"distribution['smdistributed'][{name!r}]"
        if name == "modelparallel":
            if _enabled(_mapping(where, options)):
                parameters = options.get("parameters") or {}
                keys.update(_model_parallel(_mapping(f"{where}['parameters']", parameters)))
        elif name != "dataparallel":
            raise UnsupportedArgument(where, "is no library known here")
    return keys


def _model_parallel(parameters: Mapping[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for name, given in parameters.items():
        value = parsed(given) if isinstance(given, str) else given
        where = f"distribution['smdistributed']['modelparallel']['parameters'][{name!r}]"
        if name == "sharded_data_parallel_degree":
            if value is True:
                raise UnsupportedArgument(where, "is a number of GPUs, not True")
            if value not in (False, None, 1):
                keys["parallel.fsdp"] = "full_shard"
        elif name in _OFFLOADING:
            if value:
                keys["parallel.offload"] = ["activations"]
        elif name in _MODEL_PARALLEL:
            keys[_MODEL_PARALLEL[name]] = value
        elif name in _NO_EFFECT:
            warnings.warn(f"{where} has no effect", stacklevel=6)
        elif name in _REFUSED:
            # A degree of 1 and False are equal in Python; True is too, and is no degree.
            if value:
                raise UnsupportedArgument(where, _REFUSED[name])
        else:
            raise UnsupportedArgument(where, "is not known here; leave it out")
    return keys


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{where} is a mapping such as {{'enabled': True}}, not {value!r}")
    return value


def _enabled(options: Mapping[str, Any]) -> bool:
    return bool(options.get("enabled", False))
