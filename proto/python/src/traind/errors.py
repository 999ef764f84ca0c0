"""Exceptions: refused calls with the daemon's reason, and jobs that did not complete."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traind.view import Failure, JobView


class TraindError(Exception):
    """Any error of this package."""


class JobFileWarning(UserWarning):
    """Something odd in a job file that is accepted, such as an old name of a key."""


@dataclass(frozen=True)
class FieldViolation:
    """A field of a request that is wrong, by its path: "train.learning_rate"."""

    field: str
    description: str

    def __str__(self) -> str:
        return f"{self.field}: {self.description}" if self.field else self.description


class CallError(TraindError):
    """A call that failed.

    `code` is gRPC's name of the error ("INVALID_ARGUMENT"), `reason` the daemon's ("JOB_FILE_INVALID"), empty
    where the call did not reach it. `violations` are the fields that are wrong, `retry_seconds` how long to wait
    before another try, where the daemon says so.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "UNKNOWN",
        reason: str = "",
        violations: Sequence[FieldViolation] = (),
        retry_seconds: float | None = None,
    ) -> None:
        self.message = message
        self.code = code
        self.reason = reason
        self.violations = tuple(violations)
        self.retry_seconds = retry_seconds
        super().__init__("\n  ".join([message, *self._unsaid()]))

    def _unsaid(self) -> list[str]:
        """The violations that the message does not hold already."""
        return [str(violation) for violation in self.violations if violation.description not in self.message]

    def __reduce__(self) -> Any:
        return (_remake, (type(self), self.message, self.code, self.reason, self.violations, self.retry_seconds))


def _remake(
    kind: type[CallError],
    message: str,
    code: str,
    reason: str,
    violations: Sequence[FieldViolation],
    retry_seconds: float | None,
) -> CallError:
    return kind(message, code=code, reason=reason, violations=violations, retry_seconds=retry_seconds)


class JobFileInvalid(CallError):
    """The job file is refused; `violations` has one entry for each fault."""

    def without_lines(self) -> JobFileInvalid:
        """The same without the lines of the file."""
        found = [FieldViolation(it.field, re.sub(r" \(line \d+\)$", "", it.description)) for it in self.violations]
        return JobFileInvalid(self.message, code=self.code, reason=self.reason, violations=found)


class JobNotFound(CallError):
    """No job has this id or name, or several have."""


class PermissionDenied(CallError):
    """The caller's role does not allow this, or the daemon does not know the caller."""


class Unavailable(CallError):
    """No daemon answers, or it has too much to do."""


class JobNotCompleted(TraindError):
    """A job that was waited for and did not complete."""

    def __init__(self, message: str, job: JobView) -> None:
        self.job = job
        super().__init__(message)


class JobFailed(JobNotCompleted):
    """A job that failed; `failure` has the reason and, where it is known, the field, file and row to blame."""

    def __init__(self, job: JobView) -> None:
        self.failure: Failure | None = job.failure
        super().__init__(f"job {job.id} failed: {job.failure or 'no reason is known'}", job)


class JobCancelled(JobNotCompleted):
    """A job that was cancelled."""

    def __init__(self, job: JobView) -> None:
        super().__init__(f"job {job.id} was cancelled{': ' if job.cancel_reason else ''}{job.cancel_reason}", job)


class UnsupportedArgument(TraindError, ValueError):
    """An argument of the estimator that has no meaning here, with what to use instead."""

    def __init__(self, name: str, advice: str) -> None:
        self.name = name
        super().__init__(f"{name}: {advice}")


_BY_REASON: dict[str, type[CallError]] = {
    "JOB_FILE_INVALID": JobFileInvalid,
    "JOB_NOT_FOUND": JobNotFound,
    "JOB_AMBIGUOUS": JobNotFound,
    "PERMISSION_DENIED": PermissionDenied,
    "UNAUTHENTICATED": PermissionDenied,
    "BUSY": Unavailable,
    "SHUTTING_DOWN": Unavailable,
}


def kind_of(code: str, reason: str) -> type[CallError]:
    """The class of a call's error."""
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return Unavailable if code == "UNAVAILABLE" else CallError
