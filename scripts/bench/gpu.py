"""Runs traind, PyTorch and JAX in turn on the same GPU, within nine minutes, prints what came of it and writes it as JSON.

The host's Python needs torch, transformers with accelerate, and jax with its CUDA plugin, on which traind runs too; the
Trainer's side of LoRA needs peft.
`--brief --platform cpu` does the same with tiny models on a CPU, which shows nothing but that it works.
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
PEERS = Path(__file__).parents[1] / "peers"
sys.path[:0] = [str(Path(__file__).parents[1] / "lib"), str(PEERS)]

import gpu_daemon
import gpu_fixtures
import gpu_losses
import gpu_meter
from gpu_speeds import Speeds

PARTS = ["losses", "resume", "fixtures", "speeds"]
FIXTURES_SECONDS_MAX = 180
# Time for a program that was started in time.
GRACE_SECONDS = 15
SAVE_STEPS = 10


class OutOfTime(Exception):
    """There is no time left for the next part."""


def main():
    options = parse_options()
    began = time.monotonic()
    nvml = gpu_meter.nvml()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu.")))
        daemon = stack.enter_context(gpu_daemon.Daemon(options.traind, options.platform, scratch))
        bench = stack.enter_context(Bench(options, scratch, daemon, nvml, began))
        for part in PARTS:
            if part in options.parts:
                bench.results[part] = bench.attempt(getattr(bench, part))
                bench.save()
    print(f"\n{time.monotonic() - began:.0f} s in all, on {bench.results['device']}; written to {options.out}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", type=Path, default=ROOT / "bin" / "traind")
    parser.add_argument("--tests", type=Path, default=ROOT / "bin" / "traind-models-tests", help="the models' tests")
    parser.add_argument("--fixtures", type=Path, default=ROOT / "fixtures", help="the folder of the models' fixtures")
    parser.add_argument("--tokenizer", type=Path, default=ROOT / "tokenizer", help="a folder with a tokenizer")
    parser.add_argument("--data", type=Path, default=ROOT / "train.jsonl", help="a file of texts and labels")
    parser.add_argument("--platform", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--brief", action="store_true", help="tiny models alone")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--minutes", type=float, default=8.5, help="no program is started later")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="where what is measured is written as JSON")
    return parser.parse_args()


class Bench:
    FAILURES = (gpu_daemon.JobFailed, subprocess.SubprocessError, OSError, OutOfTime)

    def __init__(self, options, scratch, daemon, nvml, began):
        self.options, self.scratch, self.daemon, self.nvml, self.began = options, scratch, daemon, nvml, began
        self.is_cpu = options.platform == "cpu"
        self.results = {"device": nvml.describe() if nvml else "no GPU", "platform": options.platform}

    def __enter__(self):
        """Starts what takes no turn on the GPU, or none whose speed matters."""
        parts, self.pool = set(self.options.parts), ThreadPoolExecutor(1)
        self.tested = self.pool.submit(self.test) if "fixtures" in parts else None
        self.prepared = Speeds(self) if {"speeds", "resume"} & parts else None
        return self

    def __exit__(self, *_):
        if self.prepared:
            self.prepared.close()
        self.pool.shutdown()

    def save(self):
        self.results["seconds"] = time.monotonic() - self.began
        self.options.out.write_text(json.dumps(self.results, indent=1))

    def attempt(self, part):
        """One part that fails leaves the others their time."""
        try:
            return part()
        except self.FAILURES as failure:
            print(f"{part.__name__}: {failure}", flush=True)
            return {"failure": str(failure)}

    def seconds_left(self):
        left = self.began + 60 * self.options.minutes - time.monotonic()
        if left <= 0:
            raise OutOfTime("no time is left")
        return left

    def peer(self, script, *arguments):
        """Runs a program of the other sides, which may take a little longer than there is."""
        command = [sys.executable, PEERS / script, *map(str, arguments)]
        subprocess.run(command, check=True, timeout=self.seconds_left() + GRACE_SECONDS)

    def run(self, job, **options):
        """Runs a job of traind."""
        self.seconds_left()
        return self.daemon.run(job, **options)

    def test(self):
        options, environment = self.options, gpu_daemon.plugin_alone(self.options.platform)
        return gpu_fixtures.run(
            options.tests,
            options.fixtures,
            environment,
            options.platform,
            min(FIXTURES_SECONDS_MAX, self.seconds_left()),
        )

    def fixtures(self):
        """Logits, losses and gradients of every family's fixtures."""
        found = self.tested.result()
        differing = f", {', '.join(found['differing'])} differ:\n{found['failures']}" if found["differing"] else ""
        print(f"fixtures of {len(found['equal'])} families equal{differing}", flush=True)
        if not found["all"]:
            print(f"    the others took longer than {FIXTURES_SECONDS_MAX} s, or broke off", flush=True)
        return found

    def losses(self):
        return gpu_losses.compare(self)

    def resume(self):
        """The weights of a run whose runner is killed, beside those of one that is not: equal to the bit."""
        work = self.prepared.works[0]
        job = work.job(*self.prepared.inputs(work))
        job["train"] |= {"max_steps": 2 * SAVE_STEPS, "logging_steps": 1, "save_strategy": "steps"}
        job["train"]["save_steps"] = SAVE_STEPS
        whole = self.run(job | {"name": "whole"})
        killed = self.run(job | {"name": "killed"}, kill_after_step=SAVE_STEPS + 2)
        digests = [
            hashlib.sha256((run.output / "model.safetensors").read_bytes()).hexdigest() for run in (whole, killed)
        ]
        equal = digests[0] == digests[1]
        print(f"resumed after kill -9: weights {'equal' if equal else 'DIFFER'}", flush=True)
        return {"equal": equal}

    def speeds(self):
        return self.prepared.measure()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
