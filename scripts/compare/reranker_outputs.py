"""Output folders of reranker jobs, loaded by sentence-transformers: of a real model, and of a small random one of every
family, with all weights and with adapters.

usage: reranker_outputs.py TRAIND MODEL SCRATCH [FAMILY...]    only these families, and not the real model
"""

import json
import math
import os
import sys
from functools import partial
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1")

import numpy
import pyarrow.parquet
from embedding_outputs import DECODERS, ENCODERS, LORA, ROWS, models, quietly, text
from outputs import run_alone
from sentence_transformers import CrossEncoder

# Relative to the largest score, and to 1 at least.
TOLERANCE = 1e-6
# Transformers has no classifier of Granite.
FAMILIES = ["gpt2", *(family for family in DECODERS if family != "granite"), *ENCODERS]
# The settings of a job, and what its column of labels has.
RUNS = {
    "scores": ({"reranker": {"loss": "binary_cross_entropy"}}, lambda row: row % 2),
    "classes": ({"reranker": {"loss": "cross_entropy"}}, lambda row: ["far", "near", "same"][row % 3]),
    "adapters": ({"reranker": {"loss": "mse"}, "peft": {"method": "lora", "r": 4}}, lambda row: row % 5 / 4),
}


def train(traind, model, folder, name, settings, label):
    """Runs a job without a daemon, and returns its output folder with the scores that it gives to the rows."""
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


def compare(traind, model, folder, name, settings, label):
    """Trains, and returns whether scores by the output are not those that sentence-transformers has of it."""
    output, pairs, ours = train(traind, model, folder, name, settings, label)
    # Adapters are read after the model that they belong to, which has no classifier.
    is_of_base = lambda message: "LOAD REPORT" in message
    allowed = {"allowed": is_of_base} if "peft" in settings else {}
    theirs = quietly(CrossEncoder, output, partial(scores, pairs=pairs), **allowed)
    largest = max(1.0, float(numpy.abs(theirs).max()))
    difference = float(numpy.abs(ours - theirs).max()) / largest if ours.shape == theirs.shape else math.inf
    differs = not difference <= TOLERANCE
    print(f"{name}: {'differ' if differs else 'equal'}; scores by at most {difference:.1e}", flush=True)
    return differs


def compare_family(traind, folder, family):
    """A decoder scores by its last token, and its tokenizer pads before texts, as those of published models."""
    model = folder / f"model-{family}"
    is_decoder = family in DECODERS or family == "gpt2"
    spec = {"family": family, "labels": 1, "tokenizer": {"padding_side": "left"} if is_decoder else {}}
    models.write(model, spec, "reranker")
    settings, label = RUNS["scores"]
    runs = {family: settings, f"{family}-adapters": settings | {"peft": LORA}}
    return sum([compare(traind, model, folder, name, settings, label) for name, settings in runs.items()])


def main():
    traind, model, scratch, *families = sys.argv[1:]
    folder = Path(scratch)
    runs = RUNS.items() if not families else []
    different = sum([compare(traind, model, folder, name, *run) for name, run in runs])
    different += sum([compare_family(traind, folder, family) for family in families or FAMILIES])
    sys.exit(f"{different} outputs differ" if different else 0)


if __name__ == "__main__":
    main()
