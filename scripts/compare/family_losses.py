"""Follows Hugging Face's Trainer step by step in every task of a family, from the same random weights and rows, and
loads what was trained with transformers.

Exits with 1 where losses, learning rates or gradient norms differ by more than the limits here and in steps.py.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import both
from both import peers

import steps  # found by both

LEARNING_RATE = 1e-3
# The gradient's norm is a float32 sum of two million squares, nearly all of the word embeddings.
LIMIT_FIRST = 1e-4
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
    failed = [f"{family} {task}" for family, task in pairs if not same(options, family, task)]
    if failed:
        sys.exit(f"not the Trainer's run: {', '.join(failed)}")


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


def same(options, family, task):
    """Trains both, prints the steps side by side, and tells whether they are one run."""
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        rows, model = scratch / "train.jsonl", scratch / "model"
        peers(options, "task_rows.py", task, options.data / "train.parquet", rows)
        peers(options, "random_model.py", family, task, options.model, model)
        reference = scratch / "trainer.json"
        peers(options, "task_trainer.py", task, model, rows, reference, options.steps, options.batch, LEARNING_RATE)
        theirs = json.loads(reference.read_text())
        ours = run_traind(options, task, model, rows, scratch / "output")
        peers(options, "load_output.py", task, scratch / "output")
    found = steps.pair(theirs, ours)
    print(f"{family}, {task}")
    print(steps.table(found))
    complaints = steps.complaints(found, options.steps, LIMIT_FIRST)
    print("\n".join(complaints) or f"equal over {len(found)} steps: first to {LIMIT_FIRST}, all to {steps.LIMIT}")
    return not complaints


def run_traind(options, task, model, rows, output):
    labels = {"num_labels": 3} if task == "sequence-classification" else {}
    model = {"name_or_path": str(model), "task": task, **labels}
    data = {"train": str(rows), **DATA[task]}
    return both.run_traind(options, "family-losses", model, data, LEARNING_RATE, output)


if __name__ == "__main__":
    both.run(main)
