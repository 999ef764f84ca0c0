"""Times training steps in JAX on one device, and writes the samples per second and the loss of each interval as JSON.

WORK.json is that of speed_trainer.py, with `family`. Rows that are grouped by length are those of the file, padded to a
multiple of eight; others are random tokens without padding. With `bf16`, parameters are kept in float32 and all but
norms, softmaxes and losses are computed in bfloat16.

usage: jax_step.py WORK.json OUT.json
"""

import json
import os
import sys
import time
from pathlib import Path

WORK = json.loads(Path(sys.argv[1]).read_text())
# Without it, JAX takes the CPU where it has no use of the GPU.
os.environ["JAX_PLATFORMS"] = "cpu" if WORK["cpu"] else "cuda"

import jax
import jax.numpy as jnp
import numpy as np

import adamw
import batches
import jax_bert
import jax_gpt2
import jax_llama

MODELS = {"bert": jax_bert, "gpt2": jax_gpt2, "llama": jax_llama}
LABELS = 3
DROPOUT = 0.1
LEARNING_RATE = 1e-4
LOGGING_STEPS = 5


def main():
    began = time.perf_counter()
    jax.config.update("jax_default_prng_impl", "rbg")
    folder, model = Path(WORK["model"]), MODELS[WORK["family"]]
    config = json.loads((folder / "config.json").read_text()) | {"lora": WORK["lora"]}
    params, frozen = parameters(model, folder)
    state, key = adamw.init(params), jax.random.key(0)
    loss = computed_in(jnp.bfloat16 if WORK["bf16"] else jnp.float32, model.loss)
    step = adamw.make_step(loss, config, DROPOUT, LEARNING_RATE, WORK["steps"])
    inputs = grouped(folder) if WORK["sampling"] == "group_by_length" else dense(config["vocab_size"])
    programs = {
        shape: step.lower(params, state, batch, key, frozen).compile()
        for shape, batch in {batch["ids"].shape: batch for batch in inputs}.items()
    }
    measured = {"speeds": [], "losses": [], "prepare_seconds": time.perf_counter() - began}
    since = time.perf_counter()
    for index in range(1, WORK["steps"] + 1):
        batch = inputs[(index - 1) % len(inputs)]
        program = programs[batch["ids"].shape]
        params, state, value = program(params, state, batch, jax.random.fold_in(key, index), frozen)
        if index % LOGGING_STEPS == 0:
            measured["losses"].append(float(value))
            now = time.perf_counter()
            measured["speeds"].append((index, LOGGING_STEPS * WORK["batch"] / (now - since)))
            since = now
    memory = jax.devices()[0].memory_stats() or {}
    measured["memory_bytes_peak"] = memory.get("peak_bytes_in_use", 0)
    Path(sys.argv[2]).write_text(json.dumps(measured))


def parameters(model, folder):
    """Those that are trained, and those that are not."""
    params = model.load(folder, LABELS, jax.random.key(0))
    if not WORK["lora"]:
        return params, None
    return model.adapters(params, WORK["lora"], jax.random.key(1)), params


def computed_in(dtype, loss):
    wide = lambda params: {name: value.astype(dtype) for name, value in params.items()}
    return lambda params, *arguments: loss(wide(params), *arguments)


def grouped(folder):
    """The rows of the file, in batches of rows of similar length."""
    rows, labels = batches.read(Path(WORK["rows"]), folder / "tokenizer.json", WORK["length"])
    order = batches.order(rows, WORK["batch"], True, np.random.default_rng(0))
    return [batches.collate(rows, labels, chosen, WORK["batch"]) for chosen in order]


def dense(vocabulary):
    """One batch, which every step takes."""
    generator = np.random.default_rng(0)
    shape = (WORK["batch"], WORK["length"])
    return [
        {
            "ids": generator.integers(0, vocabulary, shape, np.int32),
            "mask": np.ones(shape, np.int32),
            "labels": generator.integers(0, LABELS, WORK["batch"], np.int32),
            "weights": np.ones(WORK["batch"], np.float32),
        }
    ]


if __name__ == "__main__":
    main()
