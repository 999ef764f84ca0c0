"""Channels of `fit` as the data of a job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Union

from traind.errors import UnsupportedArgument
from traind.sagemaker.tables import CHANNELS

#: A URI or path, several of them, or an object such as SageMaker's `TrainingInput`.
Input = Union[str, "os.PathLike[str]", list[str], Any]
#: One input for training, or inputs by channel.
Inputs = Union[None, Input, Mapping[str, Input]]

#: Ends of files by the content type of an input.
_ENDS = {
    "text/csv": "csv",
    "application/json": "json",
    "application/jsonlines": "jsonl",
    "application/x-parquet": "parquet",
    "application/vnd.apache.parquet": "parquet",
    "text/plain": "txt",
}


def channels_of(inputs: Inputs) -> dict[str, Any]:
    """Inputs by channel, each as a URI, a path or a list of them."""
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        return {"train": _location(inputs)}
    for channel in inputs:
        if not isinstance(channel, str):
            raise TypeError(f"inputs[{channel!r}]: a channel has a name such as 'train'")
    return {channel: _location(value) for channel, value in inputs.items()}


def job_keys(channels: Mapping[str, Any], input_format: str) -> dict[str, Any]:
    """The splits by field path. Without a channel for validation, `test` is what is evaluated while training, as in
    SageMaker's notebooks."""
    keys: dict[str, Any] = {}
    for channel, location in channels.items():
        path = _path(channel, channels)
        if path in keys:
            raise ValueError(f"fit() is given two channels for {path}")
        keys[path] = _files(location, input_format)
    return keys


def _path(channel: str, channels: Mapping[str, Any]) -> str:
    split = next((split for split, names in CHANNELS.items() if channel in names), None)
    if split is None:
        names = ", ".join(name for names in CHANNELS.values() for name in names)
        advice = f"is not a split; the channels are {names}: give it one of these names, or leave it out"
        raise UnsupportedArgument(f"inputs[{channel!r}]", advice)
    if split == "test" and not any(name in channels for name in CHANNELS["validation"]):
        return "data.validation"
    return f"data.{split}"


def _location(value: Input) -> Any:
    if isinstance(value, (list, tuple)):
        return [_location(item) for item in value]
    if isinstance(value, (str, os.PathLike)):
        return _without_scheme(os.fspath(value))
    config = getattr(value, "config", None)
    source = config.get("DataSource", {}).get("S3DataSource", {}) if isinstance(config, Mapping) else {}
    if "S3Uri" not in source:
        raise UnsupportedArgument("inputs", f"{value!r} is no URI, no path and no TrainingInput of S3")
    place = str(source["S3Uri"])
    end = _ENDS.get(str(config.get("ContentType", "")).partition(";")[0]) if isinstance(config, Mapping) else None
    return _files(place, end) if end else place


def _without_scheme(location: str) -> str:
    return location[len("file://") :] if location.startswith("file://") else location


def _files(location: Any, input_format: str) -> Any:
    """A prefix in a bucket stands for the files of the format below it; `save_to_disk` writes such folders."""
    if isinstance(location, list):
        return [_files(item, input_format) for item in location]
    is_file = any(character in location for character in "*?[") or PurePosixPath(location).suffix
    if location.startswith("s3://") and not is_file:
        return f"{location.rstrip('/')}/*.{input_format}"
    return location
