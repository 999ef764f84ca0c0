"""Events as lines of text, in the words of `traind logs`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Callable

from traind.records import Event

#: The most classes of a data set that a line lists.
_CLASSES_SHOWN = 12


def describe(event: Event) -> str:
    """One line, or several where a message has several."""
    line = _LINES.get(event.kind)
    return line(event.data) if line else "an event that this version does not support"


def number(value: float) -> str:
    """A number to about four digits."""
    if 0 < abs(value) < 1e-3:
        digits, exponent = f"{value:.3e}".split("e")
        return f"{digits}e{int(exponent)}"
    if not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "NaN")
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.4f}"


def duration(seconds: float) -> str:
    """`1h02m`, `3m20s`, `12s`, `0.4s`."""
    whole = max(0, int(seconds))
    if whole < 10:
        return f"{seconds:.1f}s"
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02}m"


def size(count: float) -> str:
    """`12 B`, `1.5 KiB`, `3.0 GiB`."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def counted(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def metrics(values: Mapping[str, float]) -> str:
    """Names with values, in the order of names."""
    return ", ".join(f"{name} {number(value)}" for name, value in sorted(values.items()))


def _state_changed(data: dict[str, Any]) -> str:
    return f"{data['to']}: {data['reason']}" if data["reason"] else str(data["to"])


def _data_prepared(data: dict[str, Any]) -> str:
    parts = [counted(data["rows"], "row"), counted(data["tokens"], "token")]
    if lengths := data.get("lengths"):
        parts.append("lengths " + " ".join(f"{name} {lengths[name]}" for name in ("p50", "p90", "p99", "max")))
    if data["truncated_rows"]:
        parts.append(f"{counted(data['truncated_rows'], 'row')} truncated")
    parts += _classes(data["classes"])
    cached = ", cached" if data["cache_hit"] else ""
    return f"{data['split']} data: {', '.join(parts)} in {duration(data['seconds'])}{cached}"


def _classes(counts: list[dict[str, Any]]) -> list[str]:
    """The classes with their numbers of rows, only the most frequent ones if there are many."""
    more = len(counts) - _CLASSES_SHOWN
    if more > 0:
        counts = sorted(counts, key=lambda count: -count["rows"])
    shown = ", ".join(f"{count['label']} {count['rows']}" for count in counts[:_CLASSES_SHOWN])
    return [f"classes {shown}" + (f" and {more} more" if more > 0 else "")] if counts else []


def _model_loaded(data: dict[str, Any]) -> str:
    text = f"model {data['model_type']}: {data['parameters']} parameters in {duration(data['seconds'])}"
    for words, names in (("initialized", data["initialized"]), ("not used", data["unexpected"])):
        text += f"; {words}: {', '.join(names)}" if names else ""
    return text


def _compiled(data: dict[str, Any]) -> str:
    late = "" if data["ahead"] else ", delayed a step"
    shape = f"{data['batch']} x {data['bucket_length']} tokens"
    return f"program {data['program']} for {shape} in {duration(data['seconds'])} ({data['source']}{late})"


def _step(data: dict[str, Any]) -> str:
    values = " ".join(f"{name} {number(data[name])}" for name in ("loss", "learning_rate", "grad_norm"))
    place = f"step {data['step']}/{data['max_steps']} epoch {data['epoch']:.2f}"
    return f"{place} {values} samples/s {data['samples_per_second']:.1f} eta {duration(data['eta_seconds'])}"


def _evaluated(data: dict[str, Any]) -> str:
    took = f"{counted(data['rows'], 'row')} in {duration(data['seconds'])}"
    return f"{data['split']} at step {data['step']}: {metrics(data['metrics'])} ({took})"


def _saved(data: dict[str, Any]) -> str:
    text = f"saved {data['path']} ({size(data['bytes'])}) in {duration(data['seconds'])}"
    paused = f", training paused for {duration(data['stall_seconds'])}"
    return text + paused if data["kind"] == "checkpoint" else text


def _loss_scaled(data: dict[str, Any]) -> str:
    skipped = counted(data["skipped_steps"], "step")
    return f"loss scale {number(data['scale'])} after step {data['step']}, {skipped} skipped so far"


def _fetched(data: dict[str, Any]) -> str:
    there, total, took = size(data["bytes"]), size(data["bytes_total"]), duration(data["seconds"])
    if data["bytes"] < data["bytes_total"]:
        return f"fetching {data['name']}: {there} of {total} after {took}"
    return f"fetched {data['name']}: {total} in {took}"


def _prepared(data: dict[str, Any]) -> str:
    counts = f"{data['programs']} programs, {data['compiled']} of them compiled"
    return f"prepared in {duration(data['seconds'])} while it waited: {counts}"


def _finished(data: dict[str, Any]) -> str:
    text = f"runner {data['outcome']} after {counted(data['steps'], 'step')}, {duration(data['seconds'])}"
    failure = data.get("failure")
    return f"{text}: {failure['reason']}: {failure['message']}" if failure else text


_LINES: dict[str, Callable[[dict[str, Any]], str]] = {
    "state_changed": _state_changed,
    "waiting": lambda data: f"waiting: {data['reason']}",
    "started": lambda data: f"runner {data['pid']} started on {data['platform']} {data['cores']}",
    "warning": lambda data: f"warning: {data['message']}",
    "log": lambda data: f"{data['level']}: {data['message']}",
    "data_prepared": _data_prepared,
    "model_loaded": _model_loaded,
    "compiled": _compiled,
    "step": _step,
    "evaluated": _evaluated,
    "saved": _saved,
    "resumed": lambda data: f"resumes from step {data['step']}, from {data['path']}",
    "loss_scaled": _loss_scaled,
    "prepared": _prepared,
    "fetched": _fetched,
    "uploaded": lambda data: f"uploaded {data['url']} ({size(data['bytes'])}) in {duration(data['seconds'])}",
    "finished": _finished,
}
