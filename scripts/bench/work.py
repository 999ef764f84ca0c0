"""A job whose speed is compared with the Trainer's, for both sides."""

from dataclasses import dataclass

LOGGING_STEPS = 5
LEARNING_RATE = 1e-4


@dataclass(frozen=True)
class Work:
    """`length` is that of rows, blocks or sources; `batch` is on all cores."""

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
    sampling: str = "random"
    target_length: int | None = None
    # Pixels of an image's side.
    pixels: int | None = None

    def trainer(self, model, rows, compile, cpu, threads=None):
        """The description that `speed_trainer.py`, `speed_rows.py` and `jax_step.py` take."""
        return {
            "family": self.family, "task": self.task, "model": str(model), "rows": str(rows), "length": self.length,
            "target_length": self.target_length, "batch": self.batch, "steps": self.steps, "bf16": self.bf16,
            "lora": self.lora, "compile": compile, "cpu": cpu, "sampling": self.sampling, "threads": threads,
            "texts": self.texts, "pixels": self.pixels,
        }  # fmt: skip

    def job(self, model, rows, cores=1):
        """The job file."""
        labels = {"num_labels": 3} if self.task.endswith("classification") else {}
        job = {
            "name": self.name,
            "model": {"name_or_path": str(model), "task": self.task, **labels},
            "data": {"train": str(rows), **self.data()},
            "train": {
                "max_steps": self.steps,
                "per_device_train_batch_size": self.batch // cores,
                "learning_rate": LEARNING_RATE,
                "bf16": self.bf16,
                "train_sampling_strategy": self.sampling,
                "logging_steps": LOGGING_STEPS,
                "save_strategy": "no",
            },
        }
        return job | ({"peft": {"method": "lora", **self.lora}} if self.lora else {})

    def data(self):
        """The keys of `data` that the task has besides its files."""
        return {
            "sequence-classification": {"text": "text", "label": "label", "max_length": self.length},
            "causal-lm": {"text": "text", "block_size": self.length},
            "seq2seq-lm": {"max_source_length": self.length, "max_target_length": self.target_length},
            "image-classification": {"augmentation": False},
        }[self.task]
