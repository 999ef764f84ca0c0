"""Output folders of reranker jobs, loaded by sentence-transformers.

usage: reranker_outputs.py TRAIND MODEL SCRATCH
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1")

import numpy
import pyarrow.parquet
from embedding_outputs import ROWS, quietly, text
from outputs import run_alone
from sentence_transformers import CrossEncoder

TOLERANCE = 1e-6
# The settings of a job, and what its column of labels has.
RUNS = {
    "scores": ({"reranker": {"loss": "binary_cross_entropy"}}, lambda row: row % 2),
    "classes": ({"reranker": {"loss": "cross_entropy"}}, lambda row: ["far", "near", "same"][row % 3]),
    "adapters": ({"reranker": {"loss": "mse"}, "peft": {"method": "lora", "r": 4}}, lambda row: row % 5 / 4),
}


def train(traind, model, folder, name):
    """Runs a job without a daemon, and returns its output folder with the scores that it gives to the rows."""
    settings, label = RUNS[name]
    rows = [
        {"query": text(row, "question"), "passage": text(row * 3, "answer"), "label": label(row)} for row in range(ROWS)
    ]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    job = {
        "name": name,
        "model": {"name_or_path": str(model), "task": "reranker"},
        "data": {"train": f"{name}.jsonl", "test": f"{name}.jsonl", "max_length": 32},
        "train": {
            "max_steps": 3,
            "per_device_train_batch_size": 8,
            "learning_rate": 1e-4,
            "save_strategy": "no",
            "do_predict": True,
        },
        "resources": {"platform": "cpu", "cores": 2},
        "output_dir": f"out-{name}",
        **settings,
    }
    output = run_alone(traind, folder, job)
    table = pyarrow.parquet.read_table(output / "predictions.parquet")
    column = "score" if "score" in table.column_names else "scores"
    pairs = [[row["query"], row["passage"]] for row in rows]
    return output, pairs, numpy.array(table[column].to_pylist(), dtype=numpy.float32)


def scores(model, pairs):
    return model.predict(pairs)


def main():
    traind, model, scratch = sys.argv[1:]
    for name in RUNS:
        output, pairs, ours = train(traind, model, Path(scratch), name)
        # Adapters are read after the model that they belong to, which has no classifier.
        is_of_base = lambda message: "LOAD REPORT" in message
        allowed = {"allowed": is_of_base} if name == "adapters" else {}
        theirs = quietly(CrossEncoder, output, partial(scores, pairs=pairs), **allowed)
        difference = float(numpy.abs(ours - theirs).max())
        print(f"{name}: scores differ by at most {difference:.1e}")
        if ours.shape != theirs.shape or not difference <= TOLERANCE:
            sys.exit(f"{name}: the scores are not sentence-transformers'")


if __name__ == "__main__":
    main()
