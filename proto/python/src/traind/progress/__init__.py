"""Showing a job that is waited for: a bar in a terminal, a live loss curve in a notebook, else lines or nothing."""

from __future__ import annotations

import sys
from typing import Any, Optional, TextIO

from traind.event_text import describe, metrics
from traind.progress.notebook import NotebookDisplay, notebook
from traind.progress.terminal import TerminalDisplay
from traind.records import Event
from traind.view import JobView

#: Whether to show progress; None shows it where somebody looks, a terminal or a notebook.
Show = Optional[bool]


class Display:
    """Shows nothing."""

    def show(self, event: Event) -> None:
        """Takes in an event."""

    def close(self) -> None:
        """Leaves what is shown as it stands."""

    def conclude(self, job: JobView) -> None:
        """Shows how the job ended."""


class Lines(Display):
    """Prints each event as a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, event: Event) -> None:
        print(describe(event), file=self._stream, flush=True)

    def conclude(self, job: JobView) -> None:
        print(f"job {job.id} {job.state}", file=self._stream)
        if job.final_metrics:
            print(metrics(job.final_metrics), file=self._stream, flush=True)


def display_for(job: JobView, show: Show) -> Any:
    """The display for where the program runs."""
    if show is False:
        return Display()
    shell = notebook()
    if shell is not None:
        return NotebookDisplay(job, shell)
    if sys.stderr.isatty():
        return TerminalDisplay(job, sys.stderr)
    return Lines(sys.stderr) if show else Display()
