"""A live display in Jupyter: state, bar, latest metrics and the loss curve, redrawn in place."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any, Callable

from traind.event_text import describe, duration, metrics, number
from traind.history import Metrics
from traind.progress.chart import loss_curve
from traind.records import Event
from traind.view import JobView

#: Seconds between two drawings.
_PERIOD = 0.5


def notebook() -> Any | None:
    """IPython's display module where the program runs in a notebook's kernel, which has IPython loaded."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    import importlib

    return importlib.import_module("IPython.display")


class NotebookDisplay:
    """One output cell that follows a job."""

    def __init__(self, job: JobView, ipython: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._html = ipython.HTML
        self._clock = clock
        self._metrics = Metrics()
        self._state = job.state
        self._step: dict[str, Any] | None = None
        self._line = ""
        self._handle = ipython.display(self._html(self.html()), display_id=True)
        self._drawn = clock()

    def show(self, event: Event) -> None:
        """Takes in an event, and draws unless that was done just now."""
        self._metrics.add(event)
        if event.kind == "step":
            self._step = event.data
        elif event.kind == "state_changed":
            self._state = event.data["to"]
        else:
            self._line = describe(event)
        if self._clock() - self._drawn >= _PERIOD:
            self._draw()

    def close(self) -> None:
        """Draws what came last."""
        self._draw()

    def conclude(self, job: JobView) -> None:
        """Shows how the job ended."""
        self._state = job.state
        self._line = metrics(job.final_metrics)
        if job.state == "completed":
            self._line += f" \N{EM DASH} {job.output_dir}"
        self._draw()

    def html(self) -> str:
        """The cell."""
        title = f"<b>{escape(self._job.name)}</b> {escape(self._job.id)}: {escape(self._state)}"
        line = f"<div>{escape(self._line)}</div>"
        return f"<div>{title}{_bar(self._step)}{loss_curve(self._metrics)}{line}</div>"

    def _draw(self) -> None:
        self._drawn = self._clock()
        if self._handle is not None:
            self._handle.update(self._html(self.html()))


def _bar(step: dict[str, Any] | None) -> str:
    if step is None:
        return ""
    values = f"loss {number(step['loss'])}, lr {number(step['learning_rate'])}"
    rate = f"{step['samples_per_second']:.1f} samples/s, {duration(step['eta_seconds'])} left"
    progress = f"<progress value='{step['step']}' max='{step['max_steps']}'></progress>"
    return f"<div>{progress} {step['step']}/{step['max_steps']} \N{EM DASH} {values}, {rate}</div>"
