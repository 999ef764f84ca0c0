"""Trains a model on one device with Hugging Face's Trainer, and writes its speed and memory as JSON.

WORK.json is an object: task, model, rows (a file of texts with labels), length (of rows or blocks), batch, steps, bf16,
lora (LoraConfig's arguments, or null), compile (torch.compile), group_by_length, cpu.

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

from random_model import AUTO

LOGGING_STEPS = 5
LABELS = 3


class Clock(transformers.TrainerCallback):
    """The samples per second of each logged interval. Logging reads the loss, so that the device has finished."""

    def __init__(self, batch):
        self.batch, self.last, self.speeds = batch, (0, time.perf_counter()), []

    def on_train_begin(self, arguments, state, control, **_):
        self.last = (0, time.perf_counter())

    def on_log(self, arguments, state, control, logs=None, **_):
        if "loss" not in (logs or {}):
            return
        step, since = self.last
        now = time.perf_counter()
        self.speeds.append((state.global_step, (state.global_step - step) * self.batch / (now - since)))
        self.last = (state.global_step, now)


def main():
    work = json.loads(Path(sys.argv[1]).read_text())
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(work["model"])
    arguments = transformers.TrainingArguments(
        tempfile.mkdtemp(prefix="trainer."),
        max_steps=work["steps"],
        per_device_train_batch_size=work["batch"],
        learning_rate=1e-4,
        bf16=work["bf16"],
        tf32=False if torch.cuda.is_available() else None,
        torch_compile=work["compile"],
        train_sampling_strategy="group_by_length" if work["group_by_length"] else "random",
        use_cpu=work["cpu"],
        logging_steps=LOGGING_STEPS,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    clock = Clock(work["batch"])
    trainer = transformers.Trainer(
        model(work),
        arguments,
        train_dataset=dataset(work, tokenizer),
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        callbacks=[clock],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    memory = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
    Path(sys.argv[2]).write_text(json.dumps({"speeds": clock.speeds, "memory_bytes_peak": memory}))


def model(work):
    labels = {"num_labels": LABELS} if work["task"] == "sequence-classification" else {}
    found = AUTO[work["task"]].from_pretrained(work["model"], **labels)
    if not work["lora"]:
        return found
    import peft

    return peft.get_peft_model(found, peft.LoraConfig(task_type="CAUSAL_LM", **work["lora"]))


def dataset(work, tokenizer):
    rows = [json.loads(line) for line in Path(work["rows"]).read_text().splitlines()]
    if work["task"] == "sequence-classification":
        encoded = [tokenizer(row["text"], truncation=True, max_length=work["length"]) for row in rows]
        return [{**one, "labels": row["label"]} for one, row in zip(encoded, rows, strict=True)]
    tokens = [token for row in rows for token in tokenizer(row["text"])["input_ids"]]
    starts = range(0, len(tokens) - work["length"] + 1, work["length"])
    blocks = [tokens[start : start + work["length"]] for start in starts]
    return [{"input_ids": block, "attention_mask": [1] * len(block), "labels": block} for block in blocks]


if __name__ == "__main__":
    main()
