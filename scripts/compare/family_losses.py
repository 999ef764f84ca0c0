"""Follows Hugging Face's Trainer step by step in every task of a family, from the same random weights and rows; then
both train on from what traind saved, which transformers must load without a weight too many or too few.

Exits with 1 where losses, learning rates or gradient norms differ by more than the limits in steps.py.
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import both
import families
from both import peers

import steps  # found by both

LEARNING_RATE = 1e-3
# From what was saved.
STEPS_MORE = 3


def main():
    parser = families.parser(__doc__)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    results = {pair: compare(options, *pair) for pair in families.pairs(options)}
    print(summary(results))
    sys.exit(1 if any(runs.complaints() for runs in results.values()) else 0)


@dataclass
class Compared:
    """Two runs of both: from random weights, and from what traind saved of them."""

    steps: int
    first: list
    more: list

    def complaints(self):
        return steps.complaints(self.first, self.steps) + steps.complaints(self.more, STEPS_MORE)


def compare(options, family, task):
    """Trains both, twice, and prints the steps side by side."""
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        rows, model, output = scratch / "train.jsonl", scratch / "model", scratch / "output"
        peers(options, "task_rows.py", task, options.data / "train.parquet", rows)
        peers(options, "random_model.py", family, task, options.model, model)
        first = side_by_side(options, task, model, rows, options.steps, output)
        peers(options, "load_output.py", task, output)
        more = side_by_side(options, task, output, rows, STEPS_MORE, scratch / "more")
    compared = Compared(options.steps, first, more)
    print(f"{family}, {task}")
    print(steps.table(first))
    print("from what was saved")
    print(steps.table(more))
    print("\n".join(compared.complaints()) or "equal", flush=True)
    return compared


def side_by_side(options, task, model, rows, count, output):
    """The logs of both, of so many steps from the same weights."""
    reference = output.with_suffix(".json")
    peers(options, "task_trainer.py", task, model, rows, reference, count, options.batch, LEARNING_RATE)
    [theirs] = json.loads(reference.read_text())
    return steps.pair(theirs, run_traind(options, task, model, rows, count, output))


def summary(results):
    """A line for each family and task: the largest relative differences."""
    columns = ["loss, step 1", "loss", "gradient norm", "loss, saved"]
    lines = [f"\n{'':35}" + "".join(f"{column:>15}" for column in columns)]
    for (family, task), runs in results.items():
        differences = [
            steps.largest_difference(runs.first[:1], "loss"),
            steps.largest_difference(runs.first, "loss"),
            steps.largest_difference(runs.first, "grad_norm"),
            steps.largest_difference(runs.more, "loss"),
        ]
        verdict = "not the Trainer's run" if runs.complaints() else "equal"
        lines.append(f"{family:12} {task:23}" + "".join(f"{figure:15.1e}" for figure in differences) + f"  {verdict}")
    lines.append(f"(relative; limits: {steps.LIMIT_FIRST} at a first step, {steps.LIMIT} later)")
    return "\n".join(lines)


def run_traind(options, task, model, rows, count, output):
    data = {"train": str(rows), **families.DATA[task]}
    model = families.model_section(task, model)
    return both.run_traind(options, "family-losses", model, data, LEARNING_RATE, count, output)


if __name__ == "__main__":
    both.run(main)
