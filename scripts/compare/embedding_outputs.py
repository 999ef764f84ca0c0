"""Output folders of embedding jobs, loaded by sentence-transformers.

usage: embedding_outputs.py TRAIND MODEL SCRATCH
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1")

import numpy
import pyarrow.parquet
from outputs import listening, run_alone
from sentence_transformers import SentenceTransformer

ROWS = 64
TOLERANCE = 1e-5
TOPICS = "network storage printing graphics sound fonts databases languages compilers editors games mail".split()
RUNS = {
    "whole": {"embedding": {"loss": "multiple_negatives_ranking"}},
    "pooled": {"embedding": {"loss": "cosent", "pooling_mode": "lasttoken", "normalize": False}},
    "dense": {"embedding": {"dense_out_features": 48}},
    "adapters": {"embedding": {"matryoshka_dims": [64, 32]}, "peft": {"method": "lora", "r": 4}},
}


def text(row, kind):
    first, second = TOPICS[row % len(TOPICS)], TOPICS[(row * 7 + 3) % len(TOPICS)]
    return f"{kind} number {row} about {first} and {second}" + " in detail" * (row % 5)


def write_rows(folder):
    rows = [{"question": text(row, "question"), "answer": text(row, "answer")} for row in range(ROWS)]
    scored = [row | {"score": at % 5 / 4} for at, row in enumerate(rows)]
    for name, content in [("rows.jsonl", rows), ("scored.jsonl", scored)]:
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in content))
    return [row["question"] for row in rows]


def train(traind, model, folder, name, settings):
    """Runs a job without a daemon, and returns its output folder."""
    has_scores = settings["embedding"].get("loss") == "cosent"
    job = {
        "name": name,
        "model": {"name_or_path": str(model), "task": "embedding"},
        "data": {"train": "scored.jsonl" if has_scores else "rows.jsonl", "max_length": 32},
        "train": {"max_steps": 3, "per_device_train_batch_size": 8, "learning_rate": 1e-4, "save_strategy": "no"},
        "resources": {"platform": "cpu", "cores": 2},
        "output_dir": f"out-{name}",
        **settings,
    }
    return run_alone(traind, folder, job)


def quietly(load, output, use, allowed=lambda message: False):
    """The result of `use` for the model that sentence-transformers must load from a folder without a word but `allowed`."""
    with listening("", "transformers", "sentence_transformers", "peft") as said:
        found = use(load(str(output), device="cpu"))
    messages = [message for message in said.logged if not allowed(message)] + said.warned
    if messages:
        sys.exit(f"{output.name}: sentence-transformers says {messages}")
    return found


def embedded(traind, model, output, folder):
    """The vectors by traind, for a whole model; of adapters, those that the job's test rows get."""
    target = folder / f"vectors-{output.name}"
    command = [traind, "embed", model, "rows.jsonl", "--text", "question", "--output", target, "--cores", "2"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    column = pyarrow.parquet.read_table(target / "predictions.parquet")["question"]
    return numpy.array(column.to_pylist(), dtype=numpy.float32)


def main():
    traind, model, scratch = sys.argv[1:]
    folder = Path(scratch)
    texts = write_rows(folder)
    for name, settings in RUNS.items():
        output = train(traind, model, folder, name, settings)
        theirs = quietly(SentenceTransformer, output, partial(SentenceTransformer.encode, inputs=texts))
        if name == "adapters":
            merged = train(traind, model, folder, "merged", settings | {"peft": {**settings["peft"], "merge": True}})
            ours = embedded(traind, merged, merged, folder)
        else:
            ours = embedded(traind, output, output, folder)
        difference = float(numpy.abs(ours - theirs).max())
        print(f"{name}: vectors differ by at most {difference:.1e}")
        if ours.shape != theirs.shape or not difference <= TOLERANCE:
            sys.exit(f"{name}: the vectors are not sentence-transformers'")


if __name__ == "__main__":
    main()
