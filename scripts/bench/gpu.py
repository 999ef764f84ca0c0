"""Runs traind and PyTorch in turn on the same GPU, within nine minutes, and prints what came of it.

The host's Python needs torch, transformers and peft, and JAX's CUDA plugin, on which traind runs. `--brief --platform cpu`
does the same with tiny models on a CPU, which shows nothing but that it works.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PEERS = Path(__file__).parents[1] / "peers"
sys.path[:0] = [str(Path(__file__).parents[1] / "lib"), str(PEERS)]

import gpu_daemon
import gpu_meter
import gpu_work
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
    "image-classification": {"image": "image", "label": "label"},
}  # fmt: skip
PARTS = ["losses", "resume", "speeds"]
STEPS, BATCH, LEARNING_RATE = 20, 8, 1e-3
SAVE_STEPS = 10


class OutOfTime(Exception):
    """The part that was to begin has no time left."""


FAILURES = (gpu_daemon.JobFailed, subprocess.CalledProcessError, OutOfTime)


def main():
    options = parse_options()
    began = time.monotonic()
    results = {"device": device(), "platform": options.platform}
    with tempfile.TemporaryDirectory(prefix="gpu.") as scratch:
        bench = Bench(options, Path(scratch), began + 60 * options.minutes)
        with gpu_daemon.Daemon(options.traind, options.platform, bench.scratch) as bench.daemon:
            for part in options.parts:
                results[part] = attempt(getattr(bench, part))
                if options.out:
                    options.out.write_text(json.dumps(results, indent=1))
    print(f"\n{time.monotonic() - began:.0f} s in all, on {results['device']}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", type=Path, default=ROOT / "bin" / "traind")
    parser.add_argument("--tokenizer", type=Path, default=ROOT / "tokenizer", help="a folder with a tokenizer")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="a folder with train.parquet")
    parser.add_argument("--platform", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--brief", action="store_true", help="tiny models alone")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--minutes", type=float, default=9, help="no part begins later")
    parser.add_argument("--out", type=Path, help="write what is measured to this file as JSON")
    return parser.parse_args()


def device():
    query = ["nvidia-smi", "--id=0", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def attempt(part):
    """One part that fails leaves the others their time."""
    try:
        return part()
    except FAILURES as failure:
        print(f"{part.__name__}: {failure}", flush=True)
        return {"failure": str(failure)}


class Bench:
    def __init__(self, options, scratch, deadline):
        self.options, self.scratch, self.deadline = options, scratch, deadline
        self.daemon = None
        self.is_cpu = options.platform == "cpu"

    def peer(self, script, *arguments):
        """Runs a program of PyTorch's side."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime("no time is left")
        subprocess.run([sys.executable, PEERS / script, *map(str, arguments)], check=True)

    def losses(self):
        """Losses, rates and gradient norms of tiny models in float32, step by step; those of BERT in bf16 besides."""
        found = {}
        for family, task in FAMILIES.items():
            try:
                found[family] = self.compare(family, task, {"tf32": False})
            except gpu_daemon.JobFailed as failure:
                found[family] = {"failure": str(failure)}
                print(f"{family}: {failure}", flush=True)
        found["bert in bf16"] = self.compare("bert", FAMILIES["bert"], {"bf16": True}, judged=False)
        return found

    def compare(self, family, task, precision, judged=True):
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        rows, model, out = folder / "rows.jsonl", folder / "model", folder / "peer.json"
        self.peer("task_rows.py", task, self.options.data / "train.parquet", rows, STEPS * BATCH * 2)
        self.peer("random_model.py", family, task, self.options.tokenizer, model)
        # The CPU has no TF32 to be switched off.
        theirs = {name: value for name, value in precision.items() if not (self.is_cpu and name == "tf32")}
        arguments = json.dumps({"use_cpu": self.is_cpu, **theirs})
        self.peer("task_trainer.py", task, model, rows, out, STEPS, BATCH, LEARNING_RATE, arguments)
        [reference] = json.loads(out.read_text())
        text = {} if task in ("seq2seq-lm", "image-classification") else {"text": "text"}
        labels = {"num_labels": 3} if task.endswith("classification") else {}
        run = self.daemon.run(
            {
                "name": f"{folder.name}-{family}".replace("_", "-"),
                "model": {"name_or_path": str(model), "task": task, **labels},
                "data": {"train": str(rows), **text, **DATA[task]},
                "train": {
                    "max_steps": STEPS, "per_device_train_batch_size": BATCH, "learning_rate": LEARNING_RATE,
                    "train_sampling_strategy": "sequential", "logging_steps": 1, "save_strategy": "no", **precision,
                },
            }
        )  # fmt: skip
        pairs = steps.pair(reference, run.log_history())
        complaints = steps.complaints(pairs, STEPS) if judged else []
        steps.report(f"{family}, {task}", "the Trainer", precision, pairs, complaints)
        differences = {field: steps.largest_difference(pairs, field) for field in steps.FIELDS}
        return {"differences": differences, "complaints": complaints}

    def resume(self):
        """The weights of a run whose runner is killed, beside those of one that is not: equal to the bit."""
        work = gpu_work.BRIEF[0]
        model, rows = self.prepare(work)
        job = work.job(model, rows)
        job["train"] |= {"logging_steps": 1, "save_strategy": "steps", "save_steps": SAVE_STEPS}
        whole = self.daemon.run(job | {"name": "whole"})
        killed = self.daemon.run(job | {"name": "killed"}, kill_after_step=SAVE_STEPS + 2)
        digests = [
            hashlib.sha256((run.output / "model.safetensors").read_bytes()).hexdigest() for run in (whole, killed)
        ]
        equal = digests[0] == digests[1]
        print(f"resumed after kill -9: weights {'equal' if equal else 'DIFFER'}", flush=True)
        return {"equal": equal}

    def prepare(self, work):
        """A model with random weights, and rows, for `work`."""
        model, rows = self.scratch / f"{work.name}-model", self.scratch / f"{work.name}.jsonl"
        if not rows.exists():
            self.peer("random_model.py", work.family, work.task, self.options.tokenizer, model, work.shape)
            description = self.describe(model, rows, work)
            count = 2 * work.batch * work.steps // (1 if work.task == gpu_work.CLASSIFY else 4)
            self.peer("speed_rows.py", description, self.options.data / "train.parquet", rows, count)
        return model, rows

    def speeds(self):
        """Samples per second, memory, utilization and power on every side."""
        print(f"\n{'':22} {'side':10} {'samples/s':>10} {'first step s':>13} {'GPU MiB':>9} {'util %':>7} {'watts':>6}")
        found = {}
        for work in gpu_work.BRIEF if self.options.brief else gpu_work.WORKS:
            found[work.name] = self.sides(work)
        return found

    def sides(self, work):
        """Every side's measurements; one that fails leaves out those after it."""
        found = {}
        try:
            model, rows = self.prepare(work)
            for side in (self.traind, self.trainer, self.compiled):
                found[side.__name__] = side(model, rows, work)
                print(line(work.name, side.__name__, found[side.__name__]), flush=True)
        except FAILURES as failure:
            print(f"{work.name}: {failure}", flush=True)
            found["failure"] = str(failure)
        return found

    def traind(self, model, rows, work):
        """Two runs: the second finds its programs in the cache."""
        cold = self.daemon.run(work.job(model, rows) | {"name": f"{work.name}-cold"})
        with gpu_meter.Meter() as meter:
            warm = self.daemon.run(work.job(model, rows))
        plan = self.daemon.ask("plan", self.daemon.job_file(work.job(model, rows)))
        return {
            "samples_per_second": warm.samples_per_second,
            "first_step_seconds": warm.first_step_seconds,
            "first_step_seconds_cold": cold.first_step_seconds,
            "plan": plan,
            **meter.measured(),
        }

    def trainer(self, model, rows, work, compile=False):
        description, out = self.describe(model, rows, work, compile), self.scratch / "speed.json"
        with gpu_meter.Meter() as meter:
            self.peer("speed_trainer.py", description, out)
        measured = json.loads(out.read_text())
        run = gpu_daemon.Run(out, 0.0, 0.0, measured["speeds"])
        return {"samples_per_second": run.samples_per_second, **meter.measured()}

    def describe(self, model, rows, work, compile=False):
        """Writes the description of `work` for the programs of PyTorch's side."""
        file = self.scratch / "work.json"
        file.write_text(json.dumps(work.trainer(model, rows, compile, self.is_cpu)))
        return file

    def compiled(self, model, rows, work):
        return self.trainer(model, rows, work, compile=True)


def line(work, side, measured):
    first = f"{measured['first_step_seconds']:.1f}" if "first_step_seconds" in measured else ""
    cells = [measured.get(name) for name in ("memory_mib_peak", "utilization", "watts")]
    memory, utilization, watts = ("" if cell is None else f"{cell:.0f}" for cell in cells)
    return f"{work:22} {side:10} {measured['samples_per_second']:10.1f} {first:>13} {memory:>9} {utilization:>7} {watts:>6}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
