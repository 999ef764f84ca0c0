"""Sides that run a work in turns, and the table of their measurements."""

import sys
from dataclasses import dataclass
from statistics import median

import report


def alternate(sides, count, measure):
    """Returns {side: [measurements of each round]}. Every second round is in reverse, since the machine's speed drifts."""
    results = {side: [] for side in sides}
    for index in range(count):
        for side in sides[:: -1 if index % 2 else 1]:
            measured = measure(side)
            results[side].append(measured)
            print(f"round {index + 1} {side}: {measured['samples_per_second']:.2f} samples/s", file=sys.stderr)
    return results


@dataclass(frozen=True)
class Column:
    """The medians of a measurement."""

    measurement: str
    title: str
    width: int
    decimals: int

    def cell(self, runs):
        return f"{median(report.measurements(runs, self.measurement)):{self.width}.{self.decimals}f}"


@dataclass(frozen=True)
class Table:
    """Lines of works and sides: samples per second with their range, more columns, and the ratio to traind's."""

    work_width: int
    side_width: int
    columns: tuple

    def header(self):
        titles = "".join(f" {column.title:>{column.width}}" for column in self.columns)
        return self._line("", "side", f"{'samples/s':>10}", "(range)", titles, "traind / it")

    def lines(self, work, results):
        return [self._side(work, side, results) for side in results]

    def _side(self, work, side, results):
        speeds = report.measurements(results[side], "samples_per_second")
        span = f"{min(speeds):.2f}-{max(speeds):.2f}"
        cells = "".join(f" {column.cell(results[side])}" for column in self.columns)
        return self._line(work, side, f"{median(speeds):10.2f}", span, cells, report.ratio(results, side))

    def _line(self, work, side, speed, span, cells, ratio):
        return f"{work:{self.work_width}} {side:{self.side_width}} {speed} {span:>17}{cells} {ratio:>12}"
