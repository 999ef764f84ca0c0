"""The jobs whose speed is compared on a GPU, for both sides."""

import json
from dataclasses import dataclass

LOGGING_STEPS = 5
LORA = {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}


@dataclass(frozen=True)
class Work:
    name: str
    family: str
    shape: str
    task: str
    batch: int
    length: int
    steps: int
    bf16: bool = True
    lora: dict | None = None
    # Texts of a row, so that rows fill their length.
    texts: int = 1
    group_by_length: bool = False

    def trainer(self, model, rows, compile, cpu):
        """The description that `speed_trainer.py` takes."""
        return {
            "task": self.task, "model": str(model), "rows": str(rows), "length": self.length, "batch": self.batch,
            "steps": self.steps, "bf16": self.bf16, "lora": self.lora, "compile": compile, "cpu": cpu,
            "group_by_length": self.group_by_length,
        }  # fmt: skip

    def job(self, model, rows):
        """The job file."""
        is_blocks = self.task == "causal-lm"
        length = {"block_size": self.length} if is_blocks else {"label": "label", "max_length": self.length}
        labels = {} if is_blocks else {"num_labels": 3}
        job = {
            "name": self.name,
            "model": {"name_or_path": str(model), "task": self.task, **labels},
            "data": {"train": str(rows), "text": "text", **length},
            "train": {
                "max_steps": self.steps,
                "per_device_train_batch_size": self.batch,
                "learning_rate": 1e-4,
                "bf16": self.bf16,
                "train_sampling_strategy": "group_by_length" if self.group_by_length else "random",
                "logging_steps": LOGGING_STEPS,
                "save_strategy": "no",
            },
        }
        return job | ({"peft": {"method": "lora", **self.lora}} if self.lora else {})

    def write_rows(self, texts, file, count):
        """Rows of so many texts each."""
        labelled = (
            {
                "text": " ".join(texts[(row * self.texts + index) % len(texts)] for index in range(self.texts)),
                "label": row % 3,
            }
            for row in range(count)
        )
        file.write_text("".join(json.dumps(row) + "\n" for row in labelled))


CLASSIFY, WRITE = "sequence-classification", "causal-lm"
WORKS = [
    Work("minilm-128-fp32", "bert", "small", CLASSIFY, 32, 128, 200, bf16=False, group_by_length=True),
    Work("bert-large-512", "bert", "bert-large", CLASSIFY, 16, 512, 60, texts=80),
    Work("gpt2-1024", "gpt2", "gpt2", WRITE, 8, 1024, 60, texts=80),
    Work("llama-1b-lora-1024", "llama", "llama-1b", WRITE, 4, 1024, 40, texts=80, lora=LORA),
]
# For a host without a GPU.
BRIEF = [
    Work("bert-tiny-64", "bert", "small", CLASSIFY, 4, 64, 20, bf16=False, texts=4),
    Work("llama-tiny-lora-64", "llama", "small", WRITE, 4, 64, 20, bf16=False, texts=4, lora=LORA),
]
