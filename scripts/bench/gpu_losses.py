"""The losses of tiny models, beside the Trainer's step by step."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import steps

FAMILIES = {
    "bert": "sequence-classification",
    "gpt2": "causal-lm",
    "llama": "causal-lm",
    "t5": "seq2seq-lm",
    "vit": "image-classification",
}
DATA = {
    "sequence-classification": {"label": "label", "max_length": 64},
    "causal-lm": {"block_size": 64},
    "seq2seq-lm": {
        "source": "source", "target": "target", "source_prefix": "backwards: ", "max_source_length": 64,
        "max_target_length": 16,
    },
    "image-classification": {"image": "image", "label": "label", "augmentation": False},
}  # fmt: skip
STEPS, BATCH, LEARNING_RATE = 20, 8, 1e-3
# Runs of the Trainer at a time, whose speed does not matter.
SIDE_BY_SIDE = 6


@dataclass(frozen=True)
class Case:
    family: str
    precision: dict
    judged: bool = True

    @property
    def name(self):
        return self.family if self.judged else f"{self.family} in bf16"

    @property
    def task(self):
        return FAMILIES[self.family]


CASES = [*(Case(family, {"tf32": False}) for family in FAMILIES), Case("bert", {"bf16": True}, judged=False)]


def compare(bench):
    """Losses, rates and gradient norms in float32, step by step; those of BERT in bf16 besides."""
    found = {}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        peers = [pool.submit(Compared, bench, case) for case in CASES]
        for case, peer in zip(CASES, peers, strict=True):
            try:
                found[case.name] = peer.result().beside_traind()
            except bench.FAILURES as failure:
                found[case.name] = {"failure": str(failure)}
                print(f"{case.name}: {failure}", flush=True)
    return found


class Compared:
    """A case that the Trainer has trained."""

    def __init__(self, bench, case):
        self.bench, self.case, self.folder = bench, case, Path(bench.scratch) / case.name.replace(" ", "-")
        self.folder.mkdir()
        self.rows, self.model, out = (self.folder / name for name in ("rows.jsonl", "model", "peer.json"))
        bench.peer("task_rows.py", case.task, bench.options.data, self.rows, STEPS * BATCH * 2)
        bench.peer("random_model.py", case.family, case.task, bench.options.tokenizer, self.model)
        # The CPU has no TF32 to be switched off.
        theirs = {name: value for name, value in case.precision.items() if not (bench.is_cpu and name == "tf32")}
        arguments = json.dumps({"use_cpu": bench.is_cpu, **theirs})
        bench.peer("task_trainer.py", case.task, self.model, self.rows, out, STEPS, BATCH, LEARNING_RATE, arguments)
        [self.reference] = json.loads(out.read_text())

    def beside_traind(self):
        case = self.case
        run = self.bench.run(self.job())
        pairs = steps.pair(self.reference, run.log_history())
        complaints = steps.complaints(pairs, STEPS) if case.judged else []
        steps.report(f"{case.family}, {case.task}", "the Trainer", case.precision, pairs, complaints)
        differences = {field: steps.largest_difference(pairs, field) for field in steps.FIELDS}
        return {"differences": differences, "complaints": complaints}

    def job(self):
        task = self.case.task
        text = {} if task in ("seq2seq-lm", "image-classification") else {"text": "text"}
        labels = {"num_labels": 3} if task.endswith("classification") else {}
        return {
            "name": f"{self.folder.name}-losses",
            "model": {"name_or_path": str(self.model), "task": task, **labels},
            "data": {"train": str(self.rows), **text, **DATA[task]},
            "train": {
                "max_steps": STEPS, "per_device_train_batch_size": BATCH, "learning_rate": LEARNING_RATE,
                "train_sampling_strategy": "sequential", "logging_steps": 1, "save_strategy": "no",
                **self.case.precision,
            },
        }  # fmt: skip
