"""The loss curve as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from traind.event_text import number
from traind.history import Metrics

Point = tuple[float, float]

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 28
_TICKS = 4
#: Most points of a line; more are indistinguishable at this width.
_POINTS_MAX = 400
_COLORS = {"loss": "#1f77b4", "eval_loss": "#d62728"}


def loss_curve(metrics: Metrics) -> str:
    """Training loss as a line, evaluation loss as a line with marks; empty without a finite loss."""
    series = {name: _thin(_finite(metrics.series(name))) for name in _COLORS}
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    frame = _Frame(points)
    lines = "".join(_line(name, frame, line) for name, line in series.items() if line)
    legend = "".join(_legend(index, name) for index, name in enumerate(name for name in series if series[name]))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' "
        f"font-family='sans-serif' font-size='11'>{frame.axes()}{lines}{legend}</svg>"
    )


class _Frame:
    """Places values on the drawing."""

    def __init__(self, points: Sequence[Point]) -> None:
        steps, losses = zip(*points)
        self.steps = _range(min(steps), max(steps))
        self.losses = _range(min(losses), max(losses))

    def place(self, point: Point) -> Point:
        across = (point[0] - self.steps[0]) / (self.steps[1] - self.steps[0])
        up = (point[1] - self.losses[0]) / (self.losses[1] - self.losses[0])
        width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * width, _TOP + (1 - up) * height

    def axes(self) -> str:
        parts = []
        for tick in range(_TICKS + 1):
            share = tick / _TICKS
            loss = self.losses[0] + share * (self.losses[1] - self.losses[0])
            step = self.steps[0] + share * (self.steps[1] - self.steps[0])
            across, up = self.place((step, loss))
            parts.append(f"<line x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{up:.1f}' y2='{up:.1f}' stroke='#8884'/>")
            parts.append(f"<text x='{_LEFT - 6}' y='{up + 4:.1f}' text-anchor='end' fill='#888'>{number(loss)}</text>")
            parts.append(
                f"<text x='{across:.1f}' y='{_HEIGHT - 8}' text-anchor='middle' fill='#888'>{round(step)}</text>"
            )
        return "".join(parts)


def _line(name: str, frame: _Frame, points: Sequence[Point]) -> str:
    placed = [frame.place(point) for point in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    line = f"<polyline points='{path}' fill='none' stroke='{_COLORS[name]}' stroke-width='1.5'/>"
    if name == "loss" and len(points) > 1:
        return line
    return line + "".join(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{_COLORS[name]}'/>" for x, y in placed)


def _legend(index: int, name: str) -> str:
    x = _WIDTH - _RIGHT - 80 * (index + 1)
    return f"<text x='{x}' y='{_TOP + 10}' fill='{_COLORS[name]}'>{escape(name)}</text>"


def _finite(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if math.isfinite(point[1])]


def _thin(points: list[Point]) -> list[Point]:
    """Means of neighbours, where there are more points than the drawing is wide."""
    size = math.ceil(len(points) / _POINTS_MAX)
    if size <= 1:
        return points
    groups = [points[at : at + size] for at in range(0, len(points), size)]
    return [(group[-1][0], sum(loss for _, loss in group) / len(group)) for group in groups]


def _range(low: float, high: float) -> tuple[float, float]:
    """The range of an axis, which is never empty."""
    return (low, high) if high > low else (low - 0.5, high + 0.5)
