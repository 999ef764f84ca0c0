"""Times training steps in JAX on the CPU, on rows of random tokens of one length and without padding, and writes the samples
per second of each step as JSON. WORK.json is that of speed_trainer.py, with `family`.

usage: jax_step.py WORK.json OUT.json
"""

import json
import sys
import time
from pathlib import Path

import jax
import numpy as np

import adamw
import jax_bert
import jax_gpt2

MODELS = {"bert": jax_bert, "gpt2": jax_gpt2}
LABELS = 3
DROPOUT = 0.1
LEARNING_RATE = 1e-4


def main():
    work = json.loads(Path(sys.argv[1]).read_text())
    jax.config.update("jax_default_prng_impl", "rbg")
    folder, model = Path(work["model"]), MODELS[work["family"]]
    config = json.loads((folder / "config.json").read_text())
    params = model.load(folder, LABELS, jax.random.key(0))
    state = adamw.init(params)
    step = adamw.make_step(model.loss, config, DROPOUT, LEARNING_RATE, work["steps"])
    batch, key = rows(work, config["vocab_size"]), jax.random.key(0)
    program = step.lower(params, state, batch, key).compile()
    speeds, losses = [], []
    for index in range(1, work["steps"] + 1):
        begin = time.perf_counter()
        params, state, loss = program(params, state, batch, jax.random.fold_in(key, index))
        jax.block_until_ready(params)
        speeds.append((index, work["batch"] / (time.perf_counter() - begin)))
        losses.append(float(loss))
    Path(sys.argv[2]).write_text(json.dumps({"speeds": speeds, "losses": losses}))


def rows(work, vocabulary):
    generator = np.random.default_rng(0)
    shape = (work["batch"], work["length"])
    return {
        "ids": generator.integers(0, vocabulary, shape, np.int32),
        "mask": np.ones(shape, np.int32),
        "labels": generator.integers(0, LABELS, work["batch"], np.int32),
        "weights": np.ones(work["batch"], np.float32),
    }


if __name__ == "__main__":
    main()
