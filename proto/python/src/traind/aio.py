"""The client for asyncio: `traind.aio.Client` and `traind.aio.Job`, with the methods of the blocking ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from types import TracebackType
from typing import Any, Callable, TypeVar

import grpc
import grpc.aio

from traind import arguments, job_file
from traind.connection import Caller, StrPath, Target, target
from traind.event_text import describe
from traind.history import Metrics
from traind.job import raise_unless_completed
from traind.job_file import JobSource
from traind.patience import FOLLOW_SECONDS, Patience, follow_pause
from traind.progress import Show, display_for
from traind.records import Core, Event, as_dict
from traind.status import error_of
from traind.v1 import cores_pb2, cores_pb2_grpc, jobs_pb2, jobs_pb2_grpc
from traind.view import JobView

T = TypeVar("T")
_PAGE = 1000


class Client:
    """As `traind.Client`; made and used inside a running event loop."""

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

    async def submit(
        self,
        job: JobSource,
        *,
        overrides: Mapping[str, Any] | None = None,
        base_dir: StrPath | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Submits a job, as `traind.Client.submit`."""
        request = job_file.create_request(job, overrides, base_dir, request_id)
        with job_file.lines_of(job):
            message: jobs_pb2.Job = await repeat(lambda: self._jobs.CreateJob(request))
        job_file.warn(message, job)
        return Job(self, message)

    async def fork(
        self,
        reference: str,
        *,
        at: int | None = None,
        overrides: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Submits a job that continues from another one's checkpoint, as `traind.Client.fork`."""
        request = job_file.fork_request(reference, at, overrides, request_id)
        message: jobs_pb2.Job = await repeat(lambda: self._jobs.ForkJob(request))
        job_file.warn(message)
        return Job(self, message)

    async def plan(
        self,
        job: JobSource,
        *,
        overrides: Mapping[str, Any] | None = None,
        base_dir: StrPath | None = None,
        search: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Returns what a job would take, as `traind.Client.plan`."""
        request = job_file.plan_request(job, overrides, base_dir, search)
        with job_file.lines_of(job):
            return as_dict(await repeat(lambda: self._jobs.PlanJob(request)))

    async def job(self, reference: str) -> Job:
        """Returns the job of an id, the beginning of one, or a name."""
        return Job(self, await self._get_job(reference))

    async def jobs(self, *, states: str | Sequence[str] = (), limit: int | None = None) -> list[Job]:
        """Lists jobs, newest first."""
        wanted, limit = arguments.states(states), arguments.count("limit", limit)
        size = _PAGE if limit is None else max(1, min(limit, _PAGE))
        found: list[Job] = []
        token = ""
        while True:
            request = jobs_pb2.ListJobsRequest(page_size=size, page_token=token, states=wanted)
            page = await self._list(request)
            found.extend(Job(self, message) for message in page.jobs)
            token = page.next_page_token
            if not token or (limit is not None and len(found) >= limit):
                return found[:limit]

    async def cores(self, platform: str = "") -> list[Core]:
        """Lists the host's cores as they are now."""
        request = cores_pb2.ListCoresRequest(platform=platform)
        response: cores_pb2.ListCoresResponse = await repeat(lambda: self._cores.ListCores(request))
        return [Core.of(core) for core in response.cores]

    async def close(self) -> None:
        """Ends the connection; jobs are not touched."""
        await self._channel.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _list(self, request: jobs_pb2.ListJobsRequest) -> jobs_pb2.ListJobsResponse:
        return await repeat(lambda: self._jobs.ListJobs(request))

    async def _get_job(self, reference: str) -> jobs_pb2.Job:
        request = jobs_pb2.GetJobRequest(job_id=reference)
        return await repeat(lambda: self._jobs.GetJob(request))

    async def _cancel_job(self, job_id: str) -> jobs_pb2.Job:
        request = jobs_pb2.CancelJobRequest(job_id=job_id)
        return await repeat(lambda: self._jobs.CancelJob(request))

    async def _generate_texts(self, request: jobs_pb2.GenerateTextsRequest) -> jobs_pb2.GeneratedTexts:
        return await repeat(lambda: self._jobs.GenerateTexts(request))

    def _watch_job(self, job_id: str, from_sequence: int, timeout: float | None) -> Any:
        request = jobs_pb2.WatchJobRequest(job_id=job_id, from_sequence=from_sequence)
        return self._jobs.WatchJob(request, timeout=timeout)


class Job(JobView):
    """As `traind.Job`."""

    def __init__(self, client: Client, message: jobs_pb2.Job) -> None:
        self._client = client
        self._message = message

    async def refresh(self) -> Job:
        """Asks the daemon how the job stands."""
        self._message = await self._client._get_job(self.id)
        return self

    async def wait(self, *, progress: Show = None, timeout: float | None = None) -> Job:
        """Follows the job to its end, as `traind.Job.wait`. Cancelling the task leaves the job running."""
        display = display_for(self, progress)
        try:
            async for event in self.events(timeout=timeout):
                display.show(event)
        finally:
            display.close()
        await self.refresh()
        display.conclude(self)
        raise_unless_completed(self)
        return self

    async def events(
        self, *, from_sequence: int = 1, follow: bool = True, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """Yields the job's events, as `traind.Job.events`."""
        timeout = arguments.seconds("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        last = None if follow else (await self.refresh())._message.last_sequence
        if last is not None and from_sequence > last:
            return
        patience = Patience(FOLLOW_SECONDS)
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            call = self._client._watch_job(self.id, from_sequence, left)
            try:
                async for message in call:
                    patience.restart()
                    from_sequence = message.sequence + 1
                    yield Event.of(message)
                    if message.sequence == last:
                        return
                return
            except grpc.RpcError as failed:
                delay = follow_pause(patience, error_of(failed), self.id, deadline)
            finally:
                call.cancel()
            await asyncio.sleep(delay)

    async def metrics(self) -> Metrics:
        """Returns the metrics logged so far."""
        metrics = Metrics()
        async for event in self.events(follow=False):
            metrics.add(event)
        return metrics

    async def logs(self, *, follow: bool = False) -> AsyncIterator[str]:
        """Yields the job's events as lines with their times."""
        async for event in self.events(follow=follow):
            stamp = event.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            for line in describe(event).splitlines():
                yield f"{stamp} {line}"

    async def cancel(self) -> Job:
        """Asks the job to stop after the step it is in."""
        self._message = await self._client._cancel_job(self.id)
        return self

    async def generate(
        self,
        prompts: str | Sequence[str],
        *,
        at: int | None = None,
        chat: bool = False,
        seed: int = 42,
        **settings: Any,
    ) -> list[str]:
        """Returns texts that the job's model generates, as `traind.Job.generate`."""
        several = [prompts] if isinstance(prompts, str) else prompts
        request = job_file.generate_request(self.id, several, at, chat, seed, settings)
        return [generated.text for generated in (await self._client._generate_texts(request)).texts]


async def repeat(call: Callable[[], Awaitable[T]]) -> T:
    """Makes a call that may be made twice, again while the daemon is away or has too much to do."""
    patience = Patience()
    while True:
        try:
            return await call()
        except grpc.RpcError as failed:
            error = error_of(failed)
            delay = patience.pause(error)
            if delay is None:
                raise error from None
        await asyncio.sleep(delay)


def _open(where: Target) -> grpc.aio.Channel:
    if where.credentials is None:
        return grpc.aio.insecure_channel(where.address, options=where.options)
    return grpc.aio.secure_channel(where.address, where.credentials, options=where.options)
