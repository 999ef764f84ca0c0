"""Fine-tunes a BERT sequence classifier in JAX on the CPU and writes what came of it as JSON.

Takes random batches padded to their longest row, as the Trainer does, or with --grouped batches of rows of
like length. All shapes are compiled before the clock starts; their compile time is reported apart.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import jax
import numpy as np

import adamw
import batches
import jax_bert


def main():
    options = parse_options()
    jax.config.update("jax_default_prng_impl", "rbg")
    config = json.loads((options.model / "config.json").read_text())
    begin = time.perf_counter()
    rows, labels = batches.read(options.train, options.model / "tokenizer.json")
    epochs = epoch_batches(rows, labels, options)
    params = jax_bert.load(options.model, options.labels, jax.random.key(options.seed))
    state = adamw.init(params)
    prepared = time.perf_counter()
    step = adamw.make_step(jax_bert.loss, config, options.dropout, options.learning_rate, max_steps=len(epochs))
    programs = compile_all(step, params, state, epochs)
    compiled = time.perf_counter()
    params = train(programs, params, state, epochs)
    trained = time.perf_counter()
    result = {
        "prepare_seconds": prepared - begin,
        "compile_seconds": compiled - prepared,
        "programs": len(programs),
        "train_seconds": trained - compiled,
        "samples_per_second": len(rows) * options.epochs / (trained - compiled),
        "steps": len(epochs),
        "accuracy": evaluate(params, config, options),
        "memory_bytes_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    options.out.write_text(json.dumps(result, indent=1))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--train", required=True, type=Path)
    parser.add_argument("--validation", required=True, type=Path)
    parser.add_argument("--labels", required=True, type=int)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--grouped", action="store_true")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def epoch_batches(rows, labels, options):
    generator = np.random.default_rng(options.seed)
    return [
        batches.collate(rows, labels, chosen, options.batch)
        for _ in range(options.epochs)
        for chosen in batches.order(rows, options.batch, options.grouped, generator)
    ]


def compile_all(step, params, state, epochs):
    """One executable for each length that occurs."""
    shapes = {batch["ids"].shape: batch for batch in epochs}
    key = jax.random.key(0)
    return {shape: step.lower(params, state, batch, key).compile() for shape, batch in shapes.items()}


def train(programs, params, state, epochs):
    key = jax.random.key(0)
    for index, batch in enumerate(epochs):
        params, state, _ = programs[batch["ids"].shape](params, state, batch, jax.random.fold_in(key, index))
    return jax.block_until_ready(params)


def evaluate(params, config, options):
    rows, labels = batches.read(options.validation, options.model / "tokenizer.json")
    predict = jax.jit(lambda params, ids, mask: jax_bert.logits(params, config, ids, mask).argmax(-1))
    by_length = np.argsort([len(row) for row in rows])
    right = 0
    for start in range(0, len(rows), options.batch):
        chosen = by_length[start : start + options.batch]
        batch = batches.collate(rows, labels, chosen, options.batch)
        found = np.asarray(predict(params, batch["ids"], batch["mask"]))[: len(chosen)]
        right += int((found == labels[chosen]).sum())
    return right / len(rows)


if __name__ == "__main__":
    main()
