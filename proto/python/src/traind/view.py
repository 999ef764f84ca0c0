"""A job as the daemon last described it, without any call."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from traind.records import as_datetime, as_dict, enum_name
from traind.v1 import events_pb2, jobs_pb2

#: States after which nothing happens to a job.
TERMINAL_STATES = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Failure:
    """Why a job failed, with what is to blame where that is known."""

    reason: str
    message: str
    field: str | None = None
    file: str | None = None
    row: int | None = None
    tensor: str | None = None
    step: int | None = None
    host: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class JobView:
    """The job as of the last call; `refresh` of its subclasses updates it."""

    _message: jobs_pb2.Job

    @property
    def id(self) -> str:
        """Assigned by the daemon."""
        return self._message.id

    @property
    def name(self) -> str:
        """The job file's name for it."""
        return self._message.name

    @property
    def owner(self) -> str:
        """Who submitted it."""
        return self._message.owner

    @property
    def state(self) -> str:
        """State: "pending", "starting", "running", "cancelling", "completed", "failed" or "cancelled"."""
        return enum_name(events_pb2.JobState.DESCRIPTOR, self._message.state)

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in TERMINAL_STATES

    @property
    def waiting_reason(self) -> str:
        """Why it waits; empty unless it does."""
        return self._message.waiting_reason

    @property
    def output_dir(self) -> str:
        """Absolute path of the output folder, on the daemon's host."""
        return self._message.output_dir

    @property
    def platform(self) -> str:
        """Kind of its cores: "cpu", "cuda" or "neuron"."""
        return self._message.platform

    @property
    def cores(self) -> list[int]:
        """Indices of the cores it holds."""
        return list(self._message.cores)

    @property
    def create_time(self) -> datetime:
        """When it was accepted."""
        return as_datetime(self._message.create_time)

    @property
    def start_time(self) -> datetime | None:
        """When its first runner started."""
        return self._time("start_time", self._message.start_time)

    @property
    def end_time(self) -> datetime | None:
        """When it ended."""
        return self._time("end_time", self._message.end_time)

    @property
    def progress(self) -> dict[str, Any] | None:
        """Metrics of the latest logged step."""
        return as_dict(self._message.progress) if self._message.HasField("progress") else None

    @property
    def final_metrics(self) -> dict[str, float]:
        """Latest metrics by the Trainer's names: "eval_loss", "train_loss"."""
        return dict(self._message.metrics)

    @property
    def failure(self) -> Failure | None:
        """Why it failed."""
        return failure_of(self._message.failure) if self._message.HasField("failure") else None

    @property
    def parent(self) -> tuple[str, int] | None:
        """The job whose checkpoint it started with, by id, and the steps that one had done."""
        found = self._message.parent
        return (found.job_id, found.step) if self._message.HasField("parent") else None

    @property
    def billed_seconds(self) -> float:
        """Seconds for which it has held its cores, over all its runs, as of the end of a run."""
        return self._message.billed_seconds

    @property
    def cost(self) -> float | None:
        """The cost of that, in the currency of the price; None without one."""
        return self._cost("price_per_hour")

    @property
    def savings(self) -> float | None:
        """How much more it would have cost on demand; None where the daemon has no price to compare with."""
        cost, full = self.cost, self._cost("on_demand_price_per_hour")
        return None if cost is None or full is None else full - cost

    @property
    def energy_joules(self) -> float | None:
        """Energy that it has used over all its runs, in joules; None where its host does not report energy."""
        return self._message.energy_joules if self._message.HasField("energy_joules") else None

    @property
    def cancel_reason(self) -> str:
        """Who or what cancelled it."""
        return self._message.cancel_reason

    @property
    def warnings(self) -> list[str]:
        """Warnings about its job file."""
        return [warning.message for warning in self._message.warnings]

    @property
    def job_file(self) -> str:
        """The YAML that was submitted; empty for jobs out of a list."""
        return self._message.job_file

    def describe(self) -> dict[str, Any]:
        """All that is known, by the names of traind/v1/jobs.proto."""
        return as_dict(self._message)

    def _cost(self, price: Any) -> float | None:
        if not self._message.HasField(price):
            return None
        return getattr(self._message, price) * self.billed_seconds / 3600

    def _time(self, name: Any, time: Timestamp) -> datetime | None:
        return as_datetime(time) if self._message.HasField(name) else None

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.name!r} {self.state}>"


def failure_of(message: events_pb2.Failure) -> Failure:
    """The failure of a message."""
    known = as_dict(message)
    values: dict[str, Any] = {field.name: known.get(field.name) for field in fields(Failure)}
    return Failure(**values)
