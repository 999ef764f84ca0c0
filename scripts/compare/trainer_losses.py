"""Follows Hugging Face's Trainer step by step: losses, learning rates and gradient norms, with a verdict.

Dropout is off and rows come in file order, so both compute the same numbers but for float32 rounding.
Exits with 1 where they differ by more than LIMIT_FIRST at the first step or LIMIT later.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import both
from both import peers

import steps  # found by both

LEARNING_RATE = 1e-4


def main():
    options = parse_options()
    labels = len(json.loads((options.data / "labels.json").read_text()))
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        model = scratch / "model"
        peers(options, "save_with_head.py", options.model, model, labels)
        reference = run_trainer(options, model, labels, scratch / "trainer.json")
        ours = run_traind(options, model, labels, scratch / "output")
    rows = steps.pair(reference, ours)
    print(steps.table(rows))
    complaints = steps.complaints(rows, options.steps)
    print("\n".join(complaints) or f"equal over {len(rows)} steps: first to {steps.LIMIT_FIRST}, all to {steps.LIMIT}")
    sys.exit(1 if complaints else 0)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32, help="rows a step, over all cores")
    return parser.parse_args()


def run_trainer(options, model, labels, out):
    peers(
        options, "trainer.py", "--model", model, "--train", options.data / "train.parquet", "--labels", labels,
        "--out", out, "--batch", options.batch, "--max-steps", options.steps, "--learning-rate", LEARNING_RATE,
        "--dropout", 0, "--sampling", "sequential", "--logging-steps", 1,
    )  # fmt: skip
    return json.loads(out.read_text())["log_history"]


def run_traind(options, model, labels, output):
    model = {
        "name_or_path": str(model),
        "task": "sequence-classification",
        "num_labels": labels,
        "config_overrides": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    }
    data = {"train": str(options.data / "train.parquet"), "text": "text", "label": "label", "max_length": 128}
    return both.run_traind(options, "trainer-losses", model, data, LEARNING_RATE, options.steps, output)


if __name__ == "__main__":
    both.run(main)
