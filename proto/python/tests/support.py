"""Makes the package for the tests: generated modules beside the sources, in a folder of the tests' own."""

import importlib.util
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

sys.path.insert(0, str(HERE.parent))
import generate  # noqa: E402


def _make_package():
    folder = tempfile.TemporaryDirectory(prefix="traind-package.")
    generate.package(folder.name)
    sys.path.insert(0, folder.name)
    return folder


# An installed or generated package on the search path is the one to test.
if importlib.util.find_spec("traind") is None:
    _folder = _make_package()

from traind.v1 import events_pb2, jobs_pb2  # noqa: E402


def event(sequence, **kind):
    """An event as the daemon sends it, a second after the one before."""
    message = events_pb2.Event(sequence=sequence, **kind)
    message.time.seconds = 1_000_000_000 + sequence
    return message


def state(name):
    """The number of a job's state."""
    return events_pb2.JobState.Value(f"JOB_STATE_{name.upper()}")


def moved(sequence, name):
    return event(sequence, state_changed=events_pb2.StateChanged(to=state(name)))


def step(sequence, number, loss=1.0):
    return event(sequence, step=events_pb2.Step(step=number, max_steps=4, epoch=number / 2, loss=loss))


def evaluated(sequence, number, **metrics):
    return event(
        sequence, evaluated=events_pb2.Evaluated(split="validation", step=number, epoch=number / 2, metrics=metrics)
    )


def job(name="running", **fields):
    return jobs_pb2.Job(id="j1", name="tiny", state=state(name), **fields)
