"""Checks of the arguments of methods, whose errors name the argument and what it may be."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from traind.v1 import events_pb2

_PREFIX = "JOB_STATE_"


def states(wanted: str | Sequence[str]) -> list[Any]:
    """The numbers of states by their names: one, or several."""
    known = {name[len(_PREFIX) :].lower(): number for name, number in events_pb2.JobState.items() if number}
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in names:
        if not isinstance(name, str) or name.lower() not in known:
            raise ValueError(f"{name!r} is no state of a job: these are {', '.join(known)}")
    return [known[name.lower()] for name in names]


def count(name: str, value: Any) -> int | None:
    """A number of at least 0, or None."""
    if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 0):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    return None if value is None else int(value)


def seconds(name: str, value: Any) -> float | None:
    """A time in seconds, or None."""
    if value is not None and (not isinstance(value, Real) or isinstance(value, bool)):
        raise TypeError(f"{name} is a number of seconds, not {value!r}")
    return None if value is None else float(value)
