"""The retry policy: while the daemon does not answer, and when it reports that it is overloaded."""

from __future__ import annotations

import random
import time
from typing import Callable

from traind.errors import CallError

#: Seconds that a daemon which is killed and started again may be away.
CALL_SECONDS = 10.0
#: The same for one whose events are followed.
FOLLOW_SECONDS = 60.0

_FIRST_DELAY = 0.05
_LONGEST_DELAY = 1.0
#: gRPC's names of a connection that could not be made or broke.
_ABSENT = ("UNAVAILABLE", "UNKNOWN", "CANCELLED")


class Patience:
    """The pauses between the tries of one call that may be repeated."""

    def __init__(self, seconds: float = CALL_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Begins anew after a success."""
        self._end = self._clock() + self._seconds
        self._delay = _FIRST_DELAY

    def pause(self, error: CallError) -> float | None:
        """Seconds to wait before the next try; None where the error is final."""
        if self._clock() >= self._end:
            return None
        if error.retry_seconds is not None:
            # Those who were refused together do not come back together.
            return error.retry_seconds * random.uniform(0.5, 1.5)
        if error.code not in _ABSENT or error.reason:
            return None
        delay, self._delay = self._delay, min(2 * self._delay, _LONGEST_DELAY)
        return delay


def follow_pause(patience: Patience, error: CallError, job_id: str, deadline: float | None) -> float:
    """Seconds to wait before a broken stream of a job's events is opened again; raises where it must not be."""
    if error.code == "DEADLINE_EXCEEDED" and deadline is not None:
        raise TimeoutError(f"job {job_id} has not ended; it is not stopped") from None
    delay = patience.pause(error)
    if delay is None:
        raise error from None
    return delay
