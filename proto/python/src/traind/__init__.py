"""Client of the traind training daemon.

>>> import traind
>>> job = traind.Client().submit("job.yaml")
>>> job.wait().metrics().frame()
"""

from traind.client import Client
from traind.errors import (
    CallError,
    FieldViolation,
    JobCancelled,
    JobFailed,
    JobFileInvalid,
    JobFileWarning,
    JobNotCompleted,
    JobNotFound,
    PermissionDenied,
    TraindError,
    Unavailable,
    UnsupportedArgument,
)
from traind.history import Metrics
from traind.job import Job
from traind.records import Core, Event
from traind.sagemaker import HuggingFace
from traind.view import Failure

__all__ = [
    "CallError",
    "Client",
    "Core",
    "Event",
    "Failure",
    "FieldViolation",
    "HuggingFace",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFileInvalid",
    "JobFileWarning",
    "JobNotCompleted",
    "JobNotFound",
    "Metrics",
    "PermissionDenied",
    "TraindError",
    "Unavailable",
    "UnsupportedArgument",
]
