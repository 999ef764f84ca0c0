"""A job that traind and a peer both run."""

import json
from dataclasses import dataclass, field


@dataclass
class Case:
    """`job` has the sections of a job file, `files` the contents of its files: rows, or bytes."""

    model: dict
    job: dict
    files: dict
    # Arguments that the peer is given in place of those of the section `train`; None leaves one out.
    arguments: dict = field(default_factory=dict)
    # Keys that the peer reads in place of those of the section `data`.
    peer: dict = field(default_factory=dict)
    # The rows that the peer gets: a function of the case's folder that returns those of `train` and `validation`.
    read: object = None
    # Continue from the checkpoint of this step once the job has ended.
    resume: int = 0
    # Words of the error with which traind refuses the job.
    refusal: str = ""
    # Both may refuse it, each with words of its own.
    may_fail: bool = False
    # Beside the name of the case in a report.
    about: str = ""
    # The largest difference of losses, where rounding decides more than usual.
    limit: float = 1e-4
    # Limit of the first step's loss.
    first_limit: float = 1e-5

    @property
    def task(self):
        return self.job["model"]["task"]

    @property
    def is_drawn(self):
        """Whether traind draws weights, with which the peer is to begin."""
        peft = self.job.get("peft") or {}
        is_new = self.model.get("without") or "ignore_mismatched_sizes" in self.job["model"]
        is_new = is_new or "dense_out_features" in self.job.get("embedding", {})
        return bool(peft or is_new) and "adapter_name_or_path" not in peft

    def sections(self):
        """The job file's sections, with what all cases share."""
        train = {
            "max_steps": 5,
            "per_device_train_batch_size": 4,
            "per_device_eval_batch_size": 4,
            "learning_rate": 1e-3,
            # Without it, Adam amplifies rounding where gradients nearly vanish.
            "adam_epsilon": 1e-4,
            "logging_steps": 1,
            "save_strategy": "no",
            "train_sampling_strategy": "sequential",
            "report_to": "none",
            **self.job.get("train", {}),
        }
        files = {split: f"{split}.jsonl" for split in ["train", "validation"] if f"{split}.jsonl" in self.files}
        return {
            **self.job,
            "data": {**files, **self.job.get("data", {})},
            "train": {key: value for key, value in train.items() if value is not None},
            "resources": {"platform": "cpu", **self.job.get("resources", {})},
        }

    def rows(self, folder):
        """The rows of `train` and `validation`, as the peer's user reads them."""
        if self.read:
            return self.read(folder)
        return {name.split(".")[0]: rows for name, rows in self.files.items() if isinstance(rows, list)}

    def write_files(self, folder):
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            elif name.endswith(".json"):
                path.write_text(json.dumps(content))
            else:
                path.write_text("".join(json.dumps(row) + "\n" for row in content))
