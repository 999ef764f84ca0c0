"""From gRPC's errors to this package's, with the details that the daemon puts into the metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from traind.errors import CallError, FieldViolation, kind_of
from traind.rpc import status_pb2 as rpc

_DETAILS = "grpc-status-details-bin"
_Message = TypeVar("_Message", rpc.ErrorInfo, rpc.BadRequest, rpc.RetryInfo)


def error_of(error: Any) -> CallError:
    """The exception of a `grpc.RpcError` or `grpc.aio.AioRpcError`."""
    status = _status(error)
    reasons = list(_unpack(status, rpc.ErrorInfo))
    reason = reasons[0].reason if reasons else ""
    violations = [
        FieldViolation(violation.field, violation.description)
        for request in _unpack(status, rpc.BadRequest)
        for violation in request.field_violations
    ]
    delays = [info.retry_delay.ToTimedelta().total_seconds() for info in _unpack(status, rpc.RetryInfo)]
    code = error.code().name
    return kind_of(code, reason)(
        error.details() or code,
        code=code,
        reason=reason,
        violations=violations,
        retry_seconds=delays[0] if delays else None,
    )


def _status(error: Any) -> rpc.Status:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            return rpc.Status.FromString(value)
    return rpc.Status()


def _unpack(status: rpc.Status, kind: type[_Message]) -> Iterator[_Message]:
    """The details of one kind. Their URLs end in Google's name of the message."""
    for detail in status.details:
        if detail.type_url.rpartition("/")[2] == f"google.rpc.{kind.DESCRIPTOR.name}":
            yield kind.FromString(detail.value)
