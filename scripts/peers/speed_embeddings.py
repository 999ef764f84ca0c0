"""Trains a model on pairs with SentenceTransformerTrainer, and writes the times at which its steps ended as JSON.

WORK.json is an object: model, rows (a file of pairs), length (of texts), batch, mini_batch (rows that pass through the
model at a time; null: the whole batch), steps, learning_rate, threads. Rows are taken in their order.

usage: speed_embeddings.py WORK.json OUT.json
"""

import json
import os
import sys
import time
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1", TRANSFORMERS_VERBOSITY="error")

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import sentence_trainer


class Clock(transformers.TrainerCallback):
    """Pairs of a number of steps and the time at which they ended."""

    def __init__(self):
        self.ended = []

    def on_train_begin(self, arguments, state, control, **_):
        self.ended = [(0, time.perf_counter())]

    def on_step_end(self, arguments, state, control, **_):
        self.ended.append((state.global_step, time.perf_counter()))


def main():
    work = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(work["threads"])
    model = SentenceTransformer(work["model"], device="cpu")
    model.max_seq_length = work["length"]
    clock = Clock()
    sentence_trainer.train(
        model,
        [json.loads(line) for line in Path(work["rows"]).read_text().splitlines()],
        loss(model, work),
        callbacks=[clock],
        max_steps=work["steps"],
        per_device_train_batch_size=work["batch"],
        learning_rate=work["learning_rate"],
        logging_steps=5,
    )
    Path(sys.argv[2]).write_text(json.dumps(clock.ended))


def loss(model, work):
    if work["mini_batch"]:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=work["mini_batch"])
    return losses.MultipleNegativesRankingLoss(model)


if __name__ == "__main__":
    main()
