"""Metrics of a job, from its events."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from traind.event_text import number
from traind.records import Event

if TYPE_CHECKING:
    import pandas

_STEP_METRICS = ("loss", "learning_rate", "grad_norm", "samples_per_second", "tokens_per_second")


class Metrics(list[dict[str, Any]]):
    """Rows by the names of the Trainer's `log_history`: one for each logged step and each evaluation."""

    def add(self, event: Event) -> None:
        """Takes in an event. A run that resumes does steps again: their rows are replaced."""
        if event.kind == "step":
            names = ("step", "epoch", *_STEP_METRICS)
            self.append({name: event.data[name] for name in names})
        elif event.kind == "evaluated":
            place = {name: event.data[name] for name in ("step", "epoch")}
            self.append({**place, **event.data["metrics"]})
        elif event.kind == "resumed":
            self[:] = [row for row in self if row["step"] <= event.data["step"]]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Metrics:
        """The metrics of all events of a job."""
        metrics = cls()
        for event in events:
            metrics.add(event)
        return metrics

    def series(self, name: str) -> list[tuple[int, float]]:
        """The values of one metric with their steps."""
        return [(row["step"], row[name]) for row in self if name in row]

    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas frame with the step as index; needs pandas."""
        import pandas

        frame = pandas.DataFrame(list(self))
        return frame.set_index("step") if len(frame) else frame

    def columns(self) -> list[str]:
        """All names in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self for name in row))

    def _repr_html_(self) -> str:
        columns = self.columns()
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        rows = "".join(f"<tr>{''.join(_cell(row.get(name)) for name in columns)}</tr>" for row in self)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    return f"<td>{number(value) if isinstance(value, float) else escape(str(value))}</td>"
