"""Kills runners and corrupts checkpoints. Resumed runs must end with the bits of an uninterrupted one.

Runs the runner without a daemon: it needs none. Every attempt is a process of its own on the same run folder.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 400
SAVES = 13
WORDS = [f"w{number}" for number in range(45)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TRACED = ["step", "loss", "grad_norm", "learning_rate", "epoch"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["runner", "plugin", "model"]:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--save-kills", type=int, default=500)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="of each run, which saves 13 times")
    parser.add_argument("--stages", type=int, default=1, help="of a pipeline, each on a core")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="traind-soak-") as folder:
        soak = Soak(arguments, Path(folder))
        soak.kill_at_random(arguments.kills)
        soak.kill_while_saving(arguments.save_kills)
        soak.flip_bits(arguments.flips)


class Soak:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        write_inputs(folder, arguments.model)
        first = self.run("compile")
        first.end(check=True)
        self.whole = self.run("whole")
        started = time.monotonic()
        self.whole.end(check=True)
        self.seconds = time.monotonic() - started

    def run(self, name, **train):
        arguments = self.arguments
        train = {"max_steps": arguments.steps, "save_steps": max(1, arguments.steps // SAVES), **train}
        return Run(arguments, self.folder, name, train, {"pipeline": arguments.stages})

    def kill_at_random(self, kills):
        """Kills each run up to five times and then lets it end."""
        done, runs, lost = 0, 0, 0
        while done < kills:
            run = self.run(f"killed-{runs}")
            for _ in range(min(5, kills - done)):
                done += run.kill_after(random.uniform(0, self.seconds))
            lost += self.check(run)
            runs += 1
        report("kills at random", done, f"{runs} runs", lost)

    def kill_while_saving(self, kills):
        """Kills runs while a checkpoint is written or older ones are removed."""
        done, runs, lost = 0, 0, 0
        while done < kills:
            run = self.run(f"saving-{runs}")
            for _ in range(min(10, kills - done)):
                done += run.kill_while_saving()
            lost += self.check(run)
            runs += 1
        report("kills while saving", done, f"{runs} runs", lost)

    def check(self, run):
        """Lets a run end. Returns 1 if it differs from the uninterrupted one."""
        run.end(check=True)
        passed_over = "CHECKPOINT_CORRUPT" in run.log()
        differs = run.result() != self.whole.result()
        if passed_over or differs:
            print(f"{run.folder.name}: differs {differs}, passed over a checkpoint {passed_over}", flush=True)
            shutil.copytree(run.folder, Path(tempfile.gettempdir()) / f"traind-soak-{run.folder.name}")
        shutil.rmtree(run.folder)
        return int(passed_over or differs)

    def flip_bits(self, flips):
        """Flips one bit at a time, in every file of a checkpoint."""
        newest = max(self.whole.checkpoints(), key=lambda path: int(path.name.split("-")[1]))
        files = sorted(path for path in newest.iterdir())
        missed = 0
        for number in range(flips):
            path = files[number % len(files)]
            bit = random.randrange(path.stat().st_size * 8)
            flip(path, bit)
            run = self.run("flipped", resume_from_checkpoint=str(newest))
            run.end(check=False)
            if "cannot be used" not in run.log():
                missed += 1
                print(f"bit {bit} of {path.name} was not found", flush=True)
            shutil.rmtree(run.folder)
            flip(path, bit)
        report("bit flips", flips, f"{len(files)} files", missed)


class Run:
    """A job and its attempts."""

    def __init__(self, arguments, folder, name, train, parallel):
        self.runner, self.folder, self.attempt = arguments.runner, folder / name, 0
        self.folder.mkdir()
        self.spec = {
            "job_id": name,
            "cores": list(range(cores(parallel))),
            "plugin": str(arguments.plugin),
            "cache_dir": str(folder / "cache"),
            "job": job(folder, self.folder / "out", train, parallel),
        }

    def start(self):
        self.attempt += 1
        spec = {**self.spec, "attempt": self.attempt}
        (self.folder / "run.json").write_text(json.dumps(spec))
        log = open(self.folder / "runner.log", "ab")
        return subprocess.Popen([self.runner, self.folder], stdout=log, stderr=log)

    def kill_after(self, seconds):
        process = self.start()
        time.sleep(seconds)
        return kill(process)

    def kill_while_saving(self):
        process = self.start()
        while process.poll() is None:
            if any((self.folder / "out").glob("*.partial")):
                time.sleep(random.uniform(0, 0.02))
                return kill(process)
            time.sleep(0.0005)
        return 0

    def end(self, check):
        code = self.start().wait()
        if check and code != 0:
            sys.exit(f"{self.folder.name}: the runner ended with {code}\n{self.log()}")

    def log(self):
        return (self.folder / "runner.log").read_text(errors="replace")

    def checkpoints(self):
        return [path for path in (self.folder / "out").glob("checkpoint-*") if path.suffix != ".partial"]

    def result(self):
        """The results that must be equal: the logs without times, and the weights."""
        out = self.folder / "out"
        history = json.loads((out / "trainer_state.json").read_text())["log_history"]
        trace = [[entry[key] for key in TRACED] for entry in history if "loss" in entry]
        return trace, (out / "model.safetensors").read_bytes()


def cores(parallel):
    return parallel.get("data", 1) * parallel.get("tensor", 1) * parallel.get("pipeline", 1)


def job(folder, output_dir, train, parallel):
    return {
        "name": output_dir.parent.name,
        "model": {
            "name_or_path": str(folder / "model"),
            "task": "sequence-classification",
            "num_labels": 3,
            "config_overrides": {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
        },
        "data": {"train": str(folder / "train.csv"), "text": "text", "label": "label"},
        "train": {
            "learning_rate": 1e-3,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 2,
            "train_sampling_strategy": "group_by_length",
            "logging_steps": 7,
            "save_total_limit": 3,
            **train,
        },
        "resources": {"cores": cores(parallel)},
        "parallel": parallel,
        "output_dir": str(output_dir),
    }


def write_inputs(folder, fixture):
    (folder / "cache").mkdir()
    (folder / "model").mkdir()
    for name in ["config.json", "model.safetensors"]:
        shutil.copy(fixture / name, folder / "model" / name)
    vocabulary = {word: number for number, word in enumerate(SPECIAL + WORDS)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    (folder / "model" / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "model" / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 32}))
    rows = random.Random(7)
    lines = [f"{' '.join(rows.choices(WORDS, k=rows.randint(3, 6)))},{number % 3}" for number in range(61)]
    (folder / "train.csv").write_text("\n".join(["text,label", *lines, ""]))


def kill(process):
    """Returns 1 if the process was still running."""
    alive = process.poll() is None
    if alive:
        process.send_signal(signal.SIGKILL)
    process.wait()
    return int(alive)


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(content)


def report(what, count, of, bad):
    print(f"{what:<20} {count:>6} in {of}: {bad} bad", flush=True)
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    main()
