"""Adapters on a real model, whose folder the environment names."""

import os
from pathlib import Path

import texts

from case import Case

FOLDER = "TRAIND_REAL_MODEL"
STEPS, BATCH = 20, 2


def case():
    """Supervised fine-tuning with LoRA on conversations, all of whose tokens are targets, as TRL's default."""
    job = {
        "model": {"task": "sft"},
        "data": {"max_length": 64},
        "train": {
            "max_steps": STEPS,
            "per_device_train_batch_size": BATCH,
            "learning_rate": 1e-3,
            "adam_epsilon": 1e-8,
        },
        "peft": {"method": "lora", "r": 8, "lora_alpha": 16, "target_modules": "all-linear"},
    }
    rows = texts.talks(STEPS * BATCH, seed=71)
    return Case(model={"folder": Path(os.environ[FOLDER]).resolve()}, job=job, files={"train.jsonl": rows}, limit=1e-3)
