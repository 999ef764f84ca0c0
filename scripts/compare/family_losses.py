"""Follows Hugging Face's Trainer step by step in every task of a family, from the same random weights and rows; then
both train on from what traind saved, which transformers must load without a weight too many or too few.

Exits with 1 where losses, learning rates or gradient norms differ by more than the limits in steps.py.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import both
from both import peers

import steps  # found by both

LEARNING_RATE = 1e-3
# From what was saved.
STEPS_MORE = 3
ENCODER_TASKS = ["sequence-classification", "token-classification", "question-answering", "masked-lm"]
FAMILIES = {
    "bert": ENCODER_TASKS,
    "distilbert": ENCODER_TASKS,
    "roberta": ENCODER_TASKS,
    "xlm-roberta": ENCODER_TASKS,
    "gpt2": ["sequence-classification", "causal-lm"],
}
# As features.py prepares the rows for the Trainer.
DATA = {
    "sequence-classification": {"max_length": 64},
    "token-classification": {"max_length": 64},
    "question-answering": {"max_length": 64, "doc_stride": 16, "id": "id", "pad_to_max_length": True},
    "masked-lm": {"max_length": 64, "line_by_line": True, "mlm_probability": 1.0, "whole_word_mask": True},
    "causal-lm": {"block_size": 64},
}


def main():
    options = parse_options()
    families = FAMILIES if options.family == "all" else [options.family]
    pairs = [(family, task) for family in families for task in FAMILIES[family] if options.task in (None, task)]
    if not pairs:
        sys.exit(f"{options.family} has no {options.task}; it has {', '.join(FAMILIES[options.family])}")
    results = {pair: compare(options, *pair) for pair in pairs}
    print(summary(results))
    sys.exit(1 if any(runs.complaints() for runs in results.values()) else 0)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--model", required=True, type=Path, help="a folder with a tokenizer")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--family", required=True, choices=["all", *FAMILIES])
    parser.add_argument("--task", choices=sorted(DATA))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16, help="rows a step, over all cores")
    return parser.parse_args()


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
    """What both logged of so many steps from the same weights."""
    reference = output.with_suffix(".json")
    peers(options, "task_trainer.py", task, model, rows, reference, count, options.batch, LEARNING_RATE)
    theirs = json.loads(reference.read_text())
    return steps.pair(theirs, run_traind(options, task, model, rows, count, output))


def summary(results):
    """A line for each family and task: the largest relative differences."""
    columns = ["loss, step 1", "loss", "gradient norm", "loss, saved"]
    lines = [f"\n{'':35}" + "".join(f"{column:>15}" for column in columns)]
    for (family, task), runs in results.items():
        figures = [
            steps.largest_difference(runs.first[:1], "loss"),
            steps.largest_difference(runs.first, "loss"),
            steps.largest_difference(runs.first, "grad_norm"),
            steps.largest_difference(runs.more, "loss"),
        ]
        verdict = "not the Trainer's run" if runs.complaints() else "equal"
        lines.append(f"{family:12} {task:23}" + "".join(f"{figure:15.1e}" for figure in figures) + f"  {verdict}")
    lines.append(f"(relative; limits: {steps.LIMIT_FIRST} at a first step, {steps.LIMIT} later)")
    return "\n".join(lines)


def run_traind(options, task, model, rows, count, output):
    labels = {"num_labels": 3} if task == "sequence-classification" else {}
    model = {"name_or_path": str(model), "task": task, **labels}
    data = {"train": str(rows), **DATA[task]}
    return both.run_traind(options, "family-losses", model, data, LEARNING_RATE, count, output)


if __name__ == "__main__":
    both.run(main)
