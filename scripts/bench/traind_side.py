"""traind's side: runs the job and reads its measurements from the job's events.

The clock is that of the events, from the moment at which the first step could begin to the end of the last
step, evaluations in between left out: what the other sides time. Programs that are compiled meanwhile count,
but all rounds after the first find them in the cache.
"""

import re
import tempfile
import time
from pathlib import Path

import service

LOGGING_STEPS = 10
PREPARATIONS = ("started", "data_prepared", "model_loaded")
STEP_PARTS = ("input_wait", "dispatch", "compute", "read_back")


def run(options, work, scratch, cache_dir=None, **train):
    memory = Memory()
    with service.Daemon(options.traind, cache_dir=cache_dir) as daemon:
        begin = time.perf_counter()
        done = daemon.run(job(work, scratch / "output", **train), on_event=memory.see)
        whole = time.perf_counter() - begin
    return measurements(done, work) | {"memory_bytes_peak": memory.bytes_peak, "whole_seconds": whole}


def run_cold(options, work, scratch):
    """With empty caches, as in the first job on a machine."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        cache = Path(folder)
        (cache / "plugins").symlink_to(options.plugins)
        return run(options, work, scratch, cache_dir=cache)


def run_bf16(options, work, scratch):
    return run(options, work, scratch, bf16=True)


def job(work, output, **train):
    return {
        "name": "bench",
        "model": {"name_or_path": str(work.model), "task": "sequence-classification", "num_labels": work.labels},
        "data": {
            "train": str(work.train),
            "validation": str(work.validation),
            "text": "text",
            "label": "label",
            "max_length": 128,
        },
        "train": {
            "num_train_epochs": work.epochs,
            "per_device_train_batch_size": work.batch // 2,
            "learning_rate": work.learning_rate,
            "train_sampling_strategy": "group_by_length",
            "eval_strategy": "epoch",
            "logging_steps": LOGGING_STEPS,
        }
        | train,
        "resources": {"platform": "cpu", "cores": 2},
        # CPU cores share memory, where two complete optimizers double the traffic.
        "parallel": {"shard_optimizer_state": True},
        "output_dir": str(output),
    }


def measurements(done, work):
    steps = done.of_kind("step")
    evaluations = done.of_kind("evaluated")
    seconds = train_seconds(done, steps, evaluations)
    return {
        "train_seconds": seconds,
        "samples_per_second": work.rows * work.epochs / seconds,
        "accuracy": evaluations[-1][1].metrics["eval_accuracy"],
        "steps": steps[-1][1].step,
        "late_compilations": sum(not message.ahead for _, message in done.of_kind("compiled")),
        "step_time": step_time(message for _, message in steps),
    }


def train_seconds(done, steps, evaluations):
    first_step = steps[0][0]
    prepared = max(time for kind in PREPARATIONS for time, _ in done.of_kind(kind) if time < first_step)
    begin = max(prepared, done.of_kind("compiled")[0][0])
    final_time, final = evaluations[-1]
    earlier = sum(message.seconds for _, message in evaluations[:-1])
    return final_time - final.seconds - begin - earlier


def step_time(messages):
    """Mean seconds of each part of a step, over all logged intervals."""
    times = [message.time for message in messages]
    return {part: sum(getattr(time, f"{part}_seconds") for time in times) / len(times) for part in STEP_PARTS}


class Memory:
    """The runner's peak resident set, read from the kernel at every event."""

    def __init__(self):
        self.status = None
        self.bytes_peak = 0

    def see(self, event):
        if event.WhichOneof("kind") == "started":
            self.status = Path(f"/proc/{event.started.pid}/status")
        try:
            found = re.search(r"VmHWM:\s+(\d+) kB", self.status.read_text()) if self.status else None
        except OSError:
            return
        if found:
            self.bytes_peak = max(self.bytes_peak, int(found[1]) * 1024)
