"""The client: submits jobs, finds them, lists cores."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Callable, TypeVar

import grpc

from traind import arguments, job_file
from traind.connection import Caller, StrPath, Target, target
from traind.job import Job
from traind.job_file import JobSource
from traind.patience import Patience
from traind.records import Core, as_dict
from traind.status import error_of
from traind.v1 import (
    cores_pb2,
    cores_pb2_grpc,
    jobs_pb2,
    jobs_pb2_grpc,
    plugins_pb2,
    plugins_pb2_grpc,
)

T = TypeVar("T")
_PAGE = 1000


class Client:
    """A connection to a daemon: by its unix socket, or by `HOST:PORT` through TLS.

    Without arguments, the one that the command line would call: TRAIND_ADDRESS, TRAIND_SOCKET, or the first of the
    usual sockets. `ca` (else gRPC's own authorities), `client_cert` with `client_key`, `token` or `token_file` are
    for an address and default to the command line's variables.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        socket: StrPath | None = None,
        ca: StrPath | None = None,
        client_cert: StrPath | None = None,
        client_key: StrPath | None = None,
        token: str | None = None,
        token_file: StrPath | None = None,
    ) -> None:
        caller = Caller(ca, client_cert, client_key, token, token_file)
        self._channel = _open(target(address, socket, caller))
        self._jobs = jobs_pb2_grpc.JobsStub(self._channel)
        self._cores = cores_pb2_grpc.CoresStub(self._channel)
        self._plugins = plugins_pb2_grpc.PluginsStub(self._channel)

    def submit(
        self,
        job: JobSource,
        *,
        overrides: Mapping[str, Any] | None = None,
        base_dir: StrPath | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Submits a job: a mapping of the job file's sections, the path of a YAML file, or YAML.

        `overrides` replace values by field path ("train.learning_rate"). Relative paths of the job file start at
        `base_dir`, else at the current folder. A repeated `request_id` returns the job of the first request.
        Raises `JobFileInvalid` with all that is wrong.
        """
        request = job_file.create_request(job, overrides, base_dir, request_id)
        with job_file.lines_of(job):
            message: jobs_pb2.Job = repeat(lambda: self._jobs.CreateJob(request))
        job_file.warn(message, job)
        return Job(self, message)

    def fork(
        self,
        reference: str,
        *,
        at: int | None = None,
        overrides: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Submits a job that continues from a checkpoint of another one, the newest or that of the step `at`.

        `overrides` replace values of the other job by field path ("train.learning_rate").
        """
        request = job_file.fork_request(reference, at, overrides, request_id)
        message: jobs_pb2.Job = repeat(lambda: self._jobs.ForkJob(request))
        job_file.warn(message)
        return Job(self, message)

    def plan(
        self,
        job: JobSource,
        *,
        overrides: Mapping[str, Any] | None = None,
        base_dir: StrPath | None = None,
        search: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Returns what a job would take, by the names of `Plan` in traind/v1/jobs.proto.

        `search` compares all meshes instead of planning the job's own: a mapping with the names of `MeshSearch`,
        such as {"platform": "cuda", "device": "h100", "hosts": 2, "cores_per_host": 8}; an empty one stands for the
        job's cores on the daemon's host. The result's "meshes" then lists the fastest first.
        """
        request = job_file.plan_request(job, overrides, base_dir, search)
        with job_file.lines_of(job):
            return as_dict(repeat(lambda: self._jobs.PlanJob(request)))

    def job(self, reference: str) -> Job:
        """Returns the job of an id, the beginning of one, or a name (the newest of that name)."""
        return Job(self, self._get_job(reference))

    def jobs(self, *, states: str | Sequence[str] = (), limit: int | None = None) -> list[Job]:
        """Lists jobs, newest first: those in one of `states` ("running"), at most `limit`."""
        limit = arguments.count("limit", limit)
        pages = self._pages(arguments.states(states), limit)
        return [Job(self, message) for message in itertools.islice(pages, limit)]

    def cores(self, platform: str = "") -> list[Core]:
        """Lists the host's cores as they are now, those of one platform or all."""
        request = cores_pb2.ListCoresRequest(platform=platform)
        response: cores_pb2.ListCoresResponse = repeat(lambda: self._cores.ListCores(request))
        return [Core.of(core) for core in response.cores]

    def plugins(self) -> list[dict[str, Any]]:
        """Lists the PJRT plugins that the daemon knows of, found or not."""
        request = plugins_pb2.ListPluginsRequest()
        response: plugins_pb2.ListPluginsResponse = repeat(lambda: self._plugins.ListPlugins(request))
        return [as_dict(plugin) for plugin in response.plugins]

    def close(self) -> None:
        """Ends the connection; jobs are not touched."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _pages(self, states: list[Any], limit: int | None) -> Iterator[jobs_pb2.Job]:
        token = ""
        size = _PAGE if limit is None else max(1, min(limit, _PAGE))
        while True:
            request = jobs_pb2.ListJobsRequest(page_size=size, page_token=token, states=states)
            page: jobs_pb2.ListJobsResponse = self._list(request)
            yield from page.jobs
            token = page.next_page_token
            if not token:
                return

    def _list(self, request: jobs_pb2.ListJobsRequest) -> jobs_pb2.ListJobsResponse:
        return repeat(lambda: self._jobs.ListJobs(request))

    def _get_job(self, reference: str) -> jobs_pb2.Job:
        request = jobs_pb2.GetJobRequest(job_id=reference)
        return repeat(lambda: self._jobs.GetJob(request))

    def _cancel_job(self, job_id: str) -> jobs_pb2.Job:
        request = jobs_pb2.CancelJobRequest(job_id=job_id)
        return repeat(lambda: self._jobs.CancelJob(request))

    def _get_samples(self, job_id: str, step: int) -> jobs_pb2.Samples:
        request = jobs_pb2.GetSamplesRequest(job_id=job_id, step=arguments.count("step", step))
        return repeat(lambda: self._jobs.GetSamples(request))

    def _generate_texts(self, request: jobs_pb2.GenerateTextsRequest) -> jobs_pb2.GeneratedTexts:
        return repeat(lambda: self._jobs.GenerateTexts(request))

    def _watch_job(self, job_id: str, from_sequence: int, timeout: float | None) -> Any:
        request = jobs_pb2.WatchJobRequest(job_id=job_id, from_sequence=from_sequence)
        return self._jobs.WatchJob(request, timeout=timeout)


def repeat(call: Callable[[], T]) -> T:
    """Makes a call that may be made twice, again while the daemon is away or has too much to do."""
    patience = Patience()
    while True:
        try:
            return call()
        except grpc.RpcError as failed:
            error = error_of(failed)
            delay = patience.pause(error)
            if delay is None:
                raise error from None
        time.sleep(delay)


def _open(where: Target) -> grpc.Channel:
    if where.credentials is None:
        return grpc.insecure_channel(where.address, options=where.options)
    return grpc.secure_channel(where.address, where.credentials, options=where.options)
