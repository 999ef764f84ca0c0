"""A job that was submitted: its events, metrics and end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from traind import arguments, job_file
from traind.errors import JobCancelled, JobFailed
from traind.event_text import describe
from traind.history import Metrics
from traind.patience import FOLLOW_SECONDS, Patience, follow_pause
from traind.progress import Show, display_for
from traind.records import Event
from traind.status import error_of
from traind.v1 import jobs_pb2
from traind.view import JobView

if TYPE_CHECKING:
    from traind.client import Client


class Job(JobView):
    """A job of a daemon. Its properties are as of the last call; `refresh` brings them up to date."""

    def __init__(self, client: Client, message: jobs_pb2.Job) -> None:
        self._client = client
        self._message = message

    def refresh(self) -> Job:
        """Asks the daemon how the job stands."""
        self._message = self._client._get_job(self.id)
        return self

    def wait(self, *, progress: Show = None, timeout: float | None = None) -> Job:
        """Follows the job to its end.

        Shows a bar in a terminal and a loss curve in a notebook; `progress=False` shows nothing, `True` prints
        lines where there is neither. Raises `JobFailed` or `JobCancelled` unless the job completed, and
        `TimeoutError` after `timeout` seconds. Interrupting it leaves the job running.
        """
        display = display_for(self, progress)
        try:
            for event in self.events(timeout=timeout):
                display.show(event)
        finally:
            display.close()
        self.refresh()
        display.conclude(self)
        raise_unless_completed(self)
        return self

    def events(self, *, from_sequence: int = 1, follow: bool = True, timeout: float | None = None) -> Iterator[Event]:
        """Yields the job's events, the past ones first, until it ends; without `follow`, the past ones alone.

        Continues after the last event when the daemon restarts.
        """
        timeout = arguments.seconds("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        last = None if follow else self.refresh()._message.last_sequence
        if last is not None and from_sequence > last:
            return
        patience = Patience(FOLLOW_SECONDS)
        while True:
            try:
                for event in self._stream(from_sequence, deadline):
                    patience.restart()
                    from_sequence = event.sequence + 1
                    yield event
                    if event.sequence == last:
                        return
                return
            except grpc.RpcError as failed:
                delay = follow_pause(patience, error_of(failed), self.id, deadline)
            time.sleep(delay)

    def metrics(self) -> Metrics:
        """Returns the metrics logged so far: rows by the Trainer's names, `frame()` of which is a pandas frame."""
        return Metrics.of(self.events(follow=False))

    def logs(self, *, follow: bool = False) -> Iterator[str]:
        """Yields the job's events as lines with their times."""
        for event in self.events(follow=follow):
            stamp = event.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            for line in describe(event).splitlines():
                yield f"{stamp} {line}"

    def cancel(self) -> Job:
        """Asks the job to stop after the step it is in."""
        self._message = self._client._cancel_job(self.id)
        return self

    def samples(self, step: int) -> list[tuple[str, int]]:
        """Returns file and row of each training row of a step, in the order of the global batch."""
        found = self._client._get_samples(self.id, step)
        return [(found.files[sample.file], sample.row) for sample in found.samples]

    def generate(
        self,
        prompts: str | Sequence[str],
        *,
        at: int | None = None,
        chat: bool = False,
        seed: int = 42,
        **settings: Any,
    ) -> list[str]:
        """Returns texts that the job's newest checkpoint generates, or its model when it has completed.

        `at` chooses the checkpoint after that many steps. With `chat`, prompts are messages of the user. `settings`
        have the names of `generation_config.json`: `max_new_tokens=64, no_repeat_ngram_size=3`.
        """
        several = [prompts] if isinstance(prompts, str) else prompts
        request = job_file.generate_request(self.id, several, at, chat, seed, settings)
        return [generated.text for generated in self._client._generate_texts(request).texts]

    def _stream(self, from_sequence: int, deadline: float | None) -> Iterator[Event]:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        call = self._client._watch_job(self.id, from_sequence, timeout)
        try:
            for message in call:
                yield Event.of(message)
        finally:
            call.cancel()


def raise_unless_completed(job: JobView) -> None:
    """Raises the exception of a job that ended in another way."""
    if job.state == "failed":
        raise JobFailed(job)
    if job.state == "cancelled":
        raise JobCancelled(job)
