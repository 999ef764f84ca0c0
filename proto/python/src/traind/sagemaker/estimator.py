"""The estimator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from traind.client import Client
from traind.connection import StrPath
from traind.errors import UnsupportedArgument
from traind.history import Metrics
from traind.job import Job
from traind.sagemaker import arguments, data, distribution, hyperparameters, inputs, phases
from traind.sagemaker.draft import Draft
from traind.sagemaker.inputs import Inputs
from traind.sagemaker.instances import Devices, devices_of


class HuggingFace:
    """Trains Hugging Face models with the signature of SageMaker's estimator.

    `model` is a model folder or a hub id and `task` the job file's; either may be a hyperparameter. A hyperparameter
    with a dot in its name is a field path of the job file ("data.label_map"). `cores` and `platform` stand in for
    `instance_type`, `client` for the session. With more than one instance, `engine` is the cluster's scheduler that
    places them: "slurm" or "kubernetes". `input_format` is that of files below a prefix of a bucket.
    """

    def __init__(
        self,
        entry_point: StrPath | None = None,
        model: StrPath | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        instance_count: int | None = 1,
        instance_type: str | None = None,
        distribution: Mapping[str, Any] | None = None,
        max_run: int | None = None,
        max_wait: int | None = None,
        output_path: StrPath | None = None,
        base_job_name: str | None = None,
        *,
        checkpoint_s3_uri: str | None = None,
        task: str | None = None,
        cores: int | None = None,
        platform: str | None = None,
        engine: str | None = None,
        input_format: str = "arrow",
        client: Client | None = None,
        **others: Any,
    ) -> None:
        arguments.check_others(others)
        arguments.check_mapping("hyperparameters", hyperparameters)
        arguments.check_kinds(
            instance_count=(instance_count, int),
            instance_type=(instance_type, str),
            entry_point=(entry_point, (str, os.PathLike)),
            model=(model, (str, os.PathLike)),
            output_path=(output_path, (str, os.PathLike)),
            checkpoint_s3_uri=(checkpoint_s3_uri, str),
            base_job_name=(base_job_name, str),
            task=(task, str),
            cores=(cores, int),
            platform=(platform, str),
            engine=(engine, str),
            input_format=(input_format, str),
            max_run=(max_run, int),
            max_wait=(max_wait, int),
        )
        entry_point = os.fspath(entry_point) if entry_point is not None else None
        for name, value in (("output_path", output_path), ("checkpoint_s3_uri", checkpoint_s3_uri)):
            _check_place(name, value)
        if max_run is not None and max_wait is not None and max_wait < max_run:
            raise ValueError("max_wait covers max_run and must not be less")
        self._model = model
        self._task = arguments.task_of(task, entry_point)
        self._hyperparameters = dict(hyperparameters or {})
        self._script = arguments.script_of(entry_point)
        self._distribution = distribution
        self._instance = devices_of(instance_type) if instance_type else Devices("cpu", 1)
        self._cores, self._platform = cores, platform
        self._hosts = _hosts(instance_count or 1, engine, self._hyperparameters)
        self._max_run, self._max_wait = max_run, max_wait
        self._output_path = os.fspath(output_path) if output_path is not None else os.curdir
        self._checkpoints = checkpoint_s3_uri
        self._input_format = input_format
        self._client = client
        self.base_job_name = base_job_name or "huggingface-training"
        #: The job of the last `fit`.
        self.latest_training_job: Job | None = None

    def fit(
        self,
        inputs: Inputs = None,
        wait: bool = True,
        logs: Any = True,
        job_name: str | None = None,
        experiment_config: Mapping[str, str] | None = None,
    ) -> None:
        """Submits a job; with `wait`, follows it to its end and raises `JobFailed` where it fails.

        `inputs` is a URI or path to train on, or several by channel: train, validation, test. `experiment_config` has
        no effect: the hyperparameter `report_to` names where metrics are written.
        """
        if experiment_config:
            warnings.warn("experiment_config has no effect: report_to names where metrics are written", stacklevel=2)
        job = self.client.submit(self.job_file(inputs, job_name))
        self.latest_training_job = job
        if wait:
            job.wait(progress=None if logs else False)

    def job_file(self, inputs_: Inputs = None, job_name: str | None = None) -> dict[str, Any]:
        """Returns the job file that `fit` submits."""
        arguments.check_kinds(job_name=(job_name, str))
        channels = inputs.channels_of(inputs_)
        keys = hyperparameters.job_keys(self._hyperparameters, channels, self._task, self._script)
        name = job_name or keys.get("name") or self._new_name()
        task = self._task or keys.get("model.task")
        keys.merge({"name": name, "output_dir": os.path.join(self._output_path, name)})
        keys.merge(self._model_keys())
        if self._checkpoints is not None:
            # SageMaker puts what is there into the container, where scripts resume from it.
            keys.merge({"checkpoint_dir": self._checkpoints, "train.resume_from_checkpoint": "auto"})
        if "data.train" not in keys:
            # Files that hyperparameters name are in channels that are no splits then.
            keys.merge(inputs.job_keys(channels, self._input_format))
        keys.merge(distribution.job_keys(self._distribution))
        self._set_resources(keys)
        keys.merge(self._shards(keys))
        given = hyperparameters.values(self._hyperparameters)
        data.read_splits(given, task, self._script, keys)
        phases.read(given, self._script, keys)
        return _nested({**arguments.usual_of(self._script), **keys})

    @property
    def client(self) -> Client:
        """The connection to the daemon, made when it is first needed."""
        if self._client is None:
            self._client = Client()
        return self._client

    @property
    def model_data(self) -> str:
        """Model folder: a path on the daemon's host, or a URL below `output_path`; the job must have completed."""
        job = self._job().refresh()
        if job.state != "completed":
            raise RuntimeError(f"job {job.id} is {job.state}: it has no model yet")
        return job.output_dir

    def logs(self) -> None:
        """Prints the job's events until it ends."""
        for line in self._job().logs(follow=True):
            print(line)

    def metrics(self) -> Metrics:
        """Returns the metrics logged so far, by the Trainer's names."""
        return self._job().metrics()

    def hyperparameters(self) -> dict[str, Any]:
        """Returns the hyperparameters as they were given."""
        return dict(self._hyperparameters)

    def set_hyperparameters(self, **hyperparameters: Any) -> None:
        """Adds hyperparameters, for the next `fit`."""
        self._hyperparameters.update(hyperparameters)

    def __getattr__(self, name: str) -> Any:
        """Says what stands in for an attribute of SageMaker's estimator."""
        advice = arguments.ATTRIBUTES.get(name)
        known = "fit, job_file, logs, metrics, model_data, latest_training_job, hyperparameters and attach are"
        raise AttributeError(f"HuggingFace has no {name!r}: {advice or f'it is not known here; {known}'}")

    @classmethod
    def attach(cls, training_job_name: str, client: Client | None = None) -> HuggingFace:
        """Returns an estimator of a job that was submitted before."""
        estimator = cls(client=client)
        estimator.latest_training_job = estimator.client.job(training_job_name)
        return estimator

    def deploy(self, *_: Any, **__: Any) -> None:
        """Refused: models are trained here, not served."""
        raise UnsupportedArgument("deploy", "models are not served here; load model_data with transformers")

    def _job(self) -> Job:
        if self.latest_training_job is None:
            raise RuntimeError("there is no job; call fit() first")
        return self.latest_training_job

    def _new_name(self) -> str:
        now = datetime.now(timezone.utc)
        return f"{self.base_job_name}-{now:%Y-%m-%d-%H-%M-%S}-{now.microsecond // 1000:03}"

    def _model_keys(self) -> dict[str, Any]:
        keys = {"model.task": self._task, "model.name_or_path": _model(self._model)}
        return {path: value for path, value in keys.items() if value is not None}

    def _shards(self, keys: Mapping[str, Any]) -> Draft:
        cores, hosts = (keys.get(f"resources.{name}", 1) for name in ("cores", "hosts"))
        return distribution.shards(self._distribution, self._hyperparameters, cores, hosts)

    def _set_resources(self, keys: Draft) -> None:
        for path, given, usual in [
            ("resources.platform", self._platform, self._instance.platform),
            ("resources.cores", self._cores, self._instance.cores),
        ]:
            if given is not None:
                keys.set(path, given, path.rpartition(".")[2])
            # Processes of a launcher and fields by their paths come before what an instance has.
            keys.setdefault(path, usual)
        keys.merge(self._hosts)
        if self._max_run is not None:
            keys.merge({"resources.max_run_seconds": self._max_run})
        if self._max_wait is not None:
            # SageMaker's limit covers waiting and running.
            keys.merge({"resources.max_wait_seconds": max(1, self._max_wait - (self._max_run or 0))})


def _model(model: StrPath | None) -> str | None:
    """A folder that is there comes before a hub id, as in transformers; the job file wants it to look like one."""
    if model is None:
        return None
    text = os.fspath(model)
    is_folder = not isinstance(model, str) or os.path.isdir(text)
    return os.path.join(os.curdir, text) if is_folder and text[:1] not in "./~" else text


def _hosts(count: int, engine: str | None, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of several instances, one host each. An engine may be a hyperparameter too."""
    keys: dict[str, Any] = {} if engine is None else {"resources.engine": engine}
    if count == 1:
        return keys
    if count < 1:
        raise ValueError(f"instance_count must be at least 1, not {count}")
    if (engine or hyperparameters.get("resources.engine", "local")) == "local":
        advice = "the daemon has one host; give the cluster by engine='slurm' or 'kubernetes', or more cores"
        raise UnsupportedArgument("instance_count", advice)
    return {**keys, "resources.hosts": count}


def _check_place(name: str, place: StrPath | None) -> None:
    scheme, separator, _ = os.fspath(place or "").partition("://")
    if separator and scheme != "s3":
        raise UnsupportedArgument(name, "is a folder of the daemon's host or an s3:// URL")


def _nested(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Values by field path as sections."""
    job: dict[str, Any] = {}
    for path, value in keys.items():
        *sections, key = path.split(".")
        section = job
        for name in sections:
            section = section.setdefault(name, {})
        section[key] = value
    return job
