"""Trains a model on one device with Hugging Face's Trainer, and writes its speed and memory as JSON.

WORK.json is an object: task, model, rows (a file of rows of the task), length (of rows or blocks), target_length, batch,
steps, bf16, lora (LoraConfig's arguments, or null), compile (torch.compile), sampling, cpu, threads (null: PyTorch's default).

usage: speed_trainer.py WORK.json OUT.json
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import torch
import transformers

import features
import pictures
import task_trainer
from random_model import AUTO

LOGGING_STEPS = 5
LABELS = 3


class Clock(transformers.TrainerCallback):
    """The samples per second and the loss of each logged interval. Logging reads the loss, so that the device has finished."""

    def __init__(self, batch):
        self.batch, self.last, self.speeds, self.losses = batch, (0, time.perf_counter()), [], []

    def on_train_begin(self, arguments, state, control, **_):
        self.last = (0, time.perf_counter())

    def on_log(self, arguments, state, control, logs=None, **_):
        if "loss" not in (logs or {}):
            return
        step, since = self.last
        now = time.perf_counter()
        self.speeds.append((state.global_step, (state.global_step - step) * self.batch / (now - since)))
        self.losses.append(logs["loss"])
        self.last = (state.global_step, now)


def main():
    work = json.loads(Path(sys.argv[1]).read_text())
    if work["threads"]:
        torch.set_num_threads(work["threads"])
    tokenizer = task_trainer.tokenizer_of(work["task"], work["model"])
    arguments = transformers.TrainingArguments(
        tempfile.mkdtemp(prefix="trainer."),
        max_steps=work["steps"],
        per_device_train_batch_size=work["batch"],
        learning_rate=1e-4,
        bf16=work["bf16"],
        tf32=False if torch.cuda.is_available() else None,
        torch_compile=work["compile"],
        train_sampling_strategy=work["sampling"],
        use_cpu=work["cpu"],
        logging_steps=LOGGING_STEPS,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    clock, trained = Clock(work["batch"]), model(work)
    trainer = transformers.Trainer(
        trained,
        arguments,
        train_dataset=dataset(work, tokenizer),
        data_collator=features.collator(work["task"], tokenizer, trained),
        callbacks=[clock],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    memory = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
    measured = {"speeds": clock.speeds, "losses": clock.losses, "memory_bytes_peak": memory}
    Path(sys.argv[2]).write_text(json.dumps(measured))


def model(work):
    labels = {"num_labels": LABELS} if work["task"].endswith("classification") else {}
    found = AUTO[work["task"]].from_pretrained(work["model"], **labels)
    if not work["lora"]:
        return found
    import peft

    return peft.get_peft_model(found, peft.LoraConfig(task_type="CAUSAL_LM", **work["lora"]))


def dataset(work, tokenizer):
    file = Path(work["rows"])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    if work["task"] == "image-classification":
        return Images(file.parent, rows)
    encode = lambda text, length: tokenizer(text, truncation=True, max_length=length)
    if work["task"] == "sequence-classification":
        return [{**encode(row["text"], work["length"]), "labels": row["label"]} for row in rows]
    if work["task"] == "seq2seq-lm":
        target = lambda row: encode(row["target"], work["target_length"])["input_ids"]
        return [{**encode(row["source"], work["length"]), "labels": target(row)} for row in rows]
    tokens = [token for row in rows for token in tokenizer(row["text"])["input_ids"]]
    starts = range(0, len(tokens) - work["length"] + 1, work["length"])
    blocks = [tokens[start : start + work["length"]] for start in starts]
    return [{"input_ids": block, "attention_mask": [1] * len(block), "labels": block} for block in blocks]


class Images(torch.utils.data.Dataset):
    """Decodes images as they are read, as the transform of transformers' example does."""

    def __init__(self, folder, rows):
        self.folder, self.rows = folder, rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        pixels = pictures.read(self.folder / row["image"])
        return {"pixel_values": features.normalized(pixels), "labels": row["label"]}


if __name__ == "__main__":
    main()
