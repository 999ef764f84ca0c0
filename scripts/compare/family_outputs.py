"""Trains every task of a family for a few steps, opens the output folder with transformers and answers the evaluated rows
with it: logits, probabilities and losses must be those that traind wrote, weights must be saved again as they are.

Language models come from several files of weights and are saved in several: their tied weights are in one of them.

Exits with 1 where a figure differs by more than LIMIT.
"""

import json
import sys
import tempfile
from pathlib import Path

import both
import families
from both import peers

LEARNING_RATE = 1e-3
STEPS = 5
# Both compute in float32, in sums of up to 128 terms over two layers: logits of about one are within some units of
# 1e-7. The limit of losses is relative.
LIMIT = 1e-5
ROWS_MAX = 200
MAX_SHARD_SIZE = "100KB"


def main():
    options = families.parser(__doc__).parse_args()
    results = {pair: reload(options, *pair) for pair in families.pairs(options)}
    print(f"(largest differences, of losses relative; limit: {LIMIT})")
    sys.exit(1 if any(results.values()) else 0)


def reload(options, family, task):
    """Prints a line, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        train, validation, model, output = (scratch / name for name in ["train.jsonl", "dev.jsonl", "model", "output"])
        peers(options, "task_rows.py", task, options.data / "train.parquet", train)
        peers(options, "task_rows.py", task, options.data / "validation.csv", validation, ROWS_MAX)
        shards = [MAX_SHARD_SIZE] if task.endswith("-lm") else []
        peers(options, "random_model.py", family, task, options.model, model, *shards)
        train_model(options, task, model, train, validation, output, shards)
        peers(options, "reload.py", task, output, validation, scratch / "found.json")
        found = json.loads((scratch / "found.json").read_text())
        whole = [folder.name for folder in [model, output] if shards and not in_shards(folder)]
    differences, complaints = found["differences"], found["complaints"]
    complaints += [f"{name} is not in several files" for name in whole]
    # Written so that a NaN, which compares false with all, is a complaint.
    complaints += [f"{name} differs" for name in differences if not differences[name] <= LIMIT]
    differences_text = ", ".join(f"{name} {difference:.1e}" for name, difference in differences.items())
    files = "several files" if shards else "one file"
    print(f"{family:12} {task:23} {files:13} {'; '.join(complaints) or 'equal'}: {differences_text}", flush=True)
    return complaints


def in_shards(folder):
    return (folder / "model.safetensors.index.json").exists() and len(list(folder.glob("model-*.safetensors"))) > 1


def train_model(options, task, model, train, validation, output, shards):
    data = {"train": str(train), "validation": str(validation), **families.DATA[task]}
    predicts = not task.endswith("-lm")
    if predicts:
        data["test"] = str(validation)
    section = families.model_section(task, model)
    if shards:
        section["max_shard_size"] = shards[0]
    both.run_traind(
        options, "family-outputs", section, data, LEARNING_RATE, STEPS, output,
        do_predict=predicts, per_device_eval_batch_size=options.batch, save_strategy="no",
    )  # fmt: skip


if __name__ == "__main__":
    both.run(main)
