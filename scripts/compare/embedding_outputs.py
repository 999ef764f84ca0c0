"""Output folders of embedding jobs, loaded by sentence-transformers: of a real model, and of a small random one of every
family, with all weights and with adapters.

usage: embedding_outputs.py TRAIND MODEL SCRATCH [FAMILY...]    only these families, and not the real model
"""

import json
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1")

sys.path.append(str(Path(__file__).parents[1] / "peers" / "jobs"))

import models
import numpy
import pyarrow.parquet
from outputs import listening, run_alone
from sentence_transformers import SentenceTransformer

import random_model  # found by models

ROWS = 64
# Relative to the length of a vector, since float32 rounds by size: both are as far from the vectors in float64.
TOLERANCE = 1e-6
# The heads of Gemma 3 have 256 numbers each, also in a small model, whose 16 are then sums of 512. The norm behind them
# divides small sums of large numbers: for 512 texts and 8 models, transformers is up to 1.5e-6 from its own vectors in
# float64, and traind 1.8e-6. With heads of 8 numbers, both are within 3e-7.
TOLERANCES = {"gemma3_text": 4e-6}
TOPICS = "network storage printing graphics sound fonts databases languages compilers editors games mail".split()
RUNS = {
    "whole": {"embedding": {"loss": "multiple_negatives_ranking"}},
    "pooled": {"embedding": {"loss": "cosent", "pooling_mode": "lasttoken", "normalize": False}},
    "dense": {"embedding": {"dense_out_features": 48}},
    "adapters": {"embedding": {"matryoshka_dims": [64, 32]}, "peft": {"method": "lora", "r": 4}},
}
DECODERS = [family for family in random_model.DECODERS if family != "eurobert"]
# Only these of the encoder-decoder models are embedded by their encoders.
SEQ2SEQ = ["t5", "mt5"]
ENCODERS = ["bert", "distilbert", "modernbert", "eurobert", *(it for it in random_model.ENCODERS if it != "bert")]
FAMILIES = DECODERS + SEQ2SEQ + ENCODERS
# PEFT knows the names of layers of some families alone.
LORA = {"method": "lora", "r": 4, "target_modules": "all-linear"}


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


def embedded(traind, model, folder):
    """The vectors of the questions by traind."""
    target = folder / f"vectors-{model.name}"
    command = [traind, "embed", model, "rows.jsonl", "--text", "question", "--output", target, "--cores", "2"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    column = pyarrow.parquet.read_table(target / "predictions.parquet")["question"]
    return numpy.array(column.to_pylist(), dtype=numpy.float32)


def compare(traind, model, folder, texts, name, settings):
    """Trains, and returns whether vectors of the output are not those that sentence-transformers has of it."""
    output = train(traind, model, folder, name, settings)
    theirs = quietly(SentenceTransformer, output, partial(SentenceTransformer.encode, inputs=texts))
    if "peft" in settings:
        merged = settings | {"peft": {**settings["peft"], "merge": True}}
        output = train(traind, model, folder, f"{name}-merged", merged)
    ours = embedded(traind, output, folder)
    lengths = numpy.linalg.norm(theirs, axis=1, keepdims=True)
    difference = float((numpy.abs(ours - theirs) / lengths).max()) if ours.shape == theirs.shape else math.inf
    differs = not difference <= TOLERANCES.get(name.removesuffix("-adapters"), TOLERANCE)
    verdict = "differ" if differs else "equal"
    print(f"{name}: {verdict}; vectors of length {lengths.max():.1f} by at most {difference:.1e} of it", flush=True)
    return differs


def compare_family(traind, folder, texts, family):
    """A decoder embeds a text by its last token, and its tokenizer pads before texts, as those of published models."""
    is_decoder = family in DECODERS
    model = folder / f"model-{family}"
    models.write(model, {"family": family, "tokenizer": {"padding_side": "left"} if is_decoder else {}}, "embedding")
    section = {"embedding": {"pooling_mode": "lasttoken" if is_decoder else "mean"}}
    runs = {family: section, f"{family}-adapters": section | {"peft": LORA}}
    return sum([compare(traind, model, folder, texts, name, settings) for name, settings in runs.items()])


def main():
    traind, model, scratch, *families = sys.argv[1:]
    folder = Path(scratch)
    texts = write_rows(folder)
    runs = RUNS.items() if not families else []
    different = sum([compare(traind, model, folder, texts, name, settings) for name, settings in runs])
    different += sum([compare_family(traind, folder, texts, family) for family in families or FAMILIES])
    sys.exit(f"{different} outputs differ" if different else 0)


if __name__ == "__main__":
    main()
