"""A progress bar in a terminal, with other events as lines above it."""

from __future__ import annotations

import shutil
from typing import Any, TextIO

from traind.event_text import describe, duration, metrics, number
from traind.records import Event
from traind.view import JobView

_BAR = 30
_CLEAR_LINE = "\r\x1b[2K"


class TerminalDisplay:
    """The last line of a terminal shows where the job stands."""

    def __init__(self, job: JobView, stream: TextIO) -> None:
        self._stream = stream
        self._line = f"{job.name}: {job.state}"
        self._draw()

    def show(self, event: Event) -> None:
        """Moves the bar, or prints a line above it."""
        if event.kind == "step":
            self._line = bar(event.data)
        elif event.kind == "waiting":
            self._line = f"waits: {event.data['reason']}"
        elif event.kind != "finished":
            self._stream.write(f"{_CLEAR_LINE}{printable(describe(event))}\n")
        self._draw()

    def close(self) -> None:
        """Leaves the bar as it stands; what follows goes below it."""
        self._stream.write("\n")
        self._stream.flush()

    def conclude(self, job: JobView) -> None:
        """Prints state, metrics and output folder."""
        lines = [f"job {job.id} {job.state}"]
        if job.final_metrics:
            lines.append(metrics(job.final_metrics))
        if job.state == "completed":
            lines.append(f"output: {job.output_dir}")
        print(printable("\n".join(lines)), file=self._stream, flush=True)

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(_CLEAR_LINE + printable(self._line)[:width])
        self._stream.flush()


def bar(step: dict[str, Any]) -> str:
    """The line of a step."""
    done, total = step["step"], max(1, step["max_steps"])
    filled = min(_BAR, _BAR * done // total)
    rate = f"{step['samples_per_second']:.1f} samples/s eta {duration(step['eta_seconds'])}"
    values = f"loss {number(step['loss'])} lr {number(step['learning_rate'])}"
    return f"[{'=' * filled:{_BAR}}] {done}/{total} {values} {rate}"


def printable(text: str) -> str:
    """Text that gives a terminal no orders: control characters and marks that turn text around are replaced."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if (not character.isprintable() and character not in "\n\t" and not character.isspace())
        or character in "\r\v\f\x1c\x1d\x1e\x1f\x85"
        else character
        for character in text
    )
