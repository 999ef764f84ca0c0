"""Trains a small Llama to prefer a page's description to that of another page, and compares it with chance.

The score is the share of the pairs about pages that nothing was trained on in which the right description has the higher
reward: training has made it more probable, or less improbable, than the wrong one.
"""

import hashlib
import math
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("lib", "lib/corpora")]

import manual_model

import manuals
import progress
import rows
import service

# Wrong descriptions of each page.
REJECTED = 3
# Tokens of question and answer; few are longer.
TOKENS_MAX = 64
CHANCE = 0.5
# Standard errors by which the score must exceed chance.
ERRORS_MIN = 3


def main():
    options = parse_arguments()
    train, evaluated = manual_model.split(manuals.read(options.manuals))
    print(f"{len(train)} pages to train on, {len(evaluated)} to evaluate")
    with tempfile.TemporaryDirectory(prefix="preferences.") as scratch:
        scratch = Path(scratch)
        manual_model.prepare(scratch, train)
        manual_model.write_conversations(scratch, train, evaluated)
        for name, pages in (("train", train), ("validation", evaluated)):
            rows.write(scratch / f"{name}-pairs.jsonl", pairs(pages))
        start = time.monotonic()
        with service.Daemon(options.traind) as daemon:
            daemon.run(manual_model.pretraining(options, scratch), progress.show)
            daemon.run(manual_model.conversations(options, scratch), progress.show)
            run = daemon.run(job(options, scratch), progress.show)
        minutes = (time.monotonic() - start) / 60
    accuracy = [evaluation.metrics["eval_rewards/accuracies"] for _, evaluation in run.of_kind("evaluated")][-1]
    enough = CHANCE + ERRORS_MIN * math.sqrt(CHANCE * (1 - CHANCE) / len(evaluated))
    print(
        f"accuracy {accuracy:.3f} after {minutes:.1f} minutes; chance: {CHANCE}, with {ERRORS_MIN} errors {enough:.3f}"
    )
    sys.exit(0 if accuracy > enough else "not better than chance")


def parse_arguments():
    parser = manual_model.parser(__doc__)
    parser.add_argument("--epochs", type=float, default=1)
    return parser.parse_args()


def pairs(pages):
    """Rows with the description of a page and that of each of the next ones in an order that is the same everywhere."""
    order = sorted(pages, key=lambda page: hashlib.sha256(page.name.encode()).digest())
    for index, page in enumerate(order):
        for distance in range(1, min(REJECTED, len(order) - 1) + 1):
            yield {
                "prompt": [manual_model.question(page)],
                "chosen": [manual_model.answer(page)],
                "rejected": [manual_model.answer(order[(index + distance) % len(order)])],
            }


def job(options, scratch):
    return {
        "name": "preferences",
        "model": {"name_or_path": str(scratch / "chat"), "task": "dpo"},
        "data": {
            "train": str(scratch / "train-pairs.jsonl"),
            "validation": str(scratch / "validation-pairs.jsonl"),
            "max_length": TOKENS_MAX,
            "pad_to_multiple_of": TOKENS_MAX // 2,
        },
        "dpo": {"beta": 0.1},
        "train": {
            "num_train_epochs": options.epochs,
            "per_device_train_batch_size": 32 // options.cores,
            "per_device_eval_batch_size": 32,
            "learning_rate": 1e-3,
            "warmup_steps": 0.1,
            "lr_scheduler_type": "cosine",
            "logging_steps": 50,
            "eval_strategy": "epoch",
            "train_sampling_strategy": "group_by_length",
            "save_strategy": "no",
        },
        "peft": manual_model.ADAPTERS,
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(scratch / "output"),
    }


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    main()
