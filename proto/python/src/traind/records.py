"""Messages of the daemon as plain Python values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from traind.v1 import cores_pb2, events_pb2

#: The descriptor of a field, of which each of protobuf's run times has a class of its own.
_Field = Any


@dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    `kind` is the name of the event ("step", "evaluated", "saved"); `data` has its fields by the names of
    traind/v1/events.proto.
    """

    sequence: int
    time: datetime
    kind: str
    data: dict[str, Any]

    @classmethod
    def of(cls, message: events_pb2.Event) -> Event:
        """The event of a message; one of a newer daemon may be of no known kind."""
        kind = message.WhichOneof("kind") or ""
        data = as_dict(getattr(message, kind)) if kind else {}
        return cls(message.sequence, as_datetime(message.time), kind, data)

    def __str__(self) -> str:
        from traind.event_text import describe

        return describe(self)


@dataclass(frozen=True)
class Core:
    """A schedulable device: a NeuronCore, a GPU or a CPU device.

    `usage` holds what the job on it reports and `figures` what its driver does, by the names of
    traind/v1/cores.proto; None where they report nothing.
    """

    core: int
    platform: str
    device: str
    job_id: str
    job_name: str
    usage: dict[str, Any] | None
    figures: dict[str, Any] | None

    @classmethod
    def of(cls, message: cores_pb2.Core) -> Core:
        """The core of a message."""
        return cls(
            message.core,
            message.platform,
            message.device,
            message.job_id,
            message.job_name,
            as_dict(message.usage) if message.HasField("usage") else None,
            as_dict(message.figures) if message.HasField("figures") else None,
        )


def as_dict(message: Message) -> dict[str, Any]:
    """A message's fields by name; absent optional ones are left out."""
    return {
        field.name: _value(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def as_datetime(time: Timestamp) -> datetime:
    """A time in UTC."""
    return time.ToDatetime(tzinfo=timezone.utc)


def enum_name(enum: EnumDescriptor, number: int) -> str:
    """The value's name in lower case and without what all names of the enumeration begin with: "running"."""
    names = enum.values_by_number
    if number not in names:
        return str(number)
    unset = enum.values[0].name
    prefix = unset[: -len("UNSPECIFIED")]
    return str(names[number].name)[len(prefix) :].lower()


def _value(field: _Field, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        item = field.message_type.fields_by_name["value"]
        return {key: _single(item, value[key]) for key in value}
    if hasattr(value, "append"):
        return [_single(field, item) for item in value]
    return _single(field, value)


def _single(field: _Field, value: Any) -> Any:
    if isinstance(value, Timestamp):
        return as_datetime(value)
    if isinstance(value, Message):
        return as_dict(value)
    return enum_name(field.enum_type, value) if field.enum_type is not None else value
