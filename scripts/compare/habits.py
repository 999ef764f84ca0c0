"""Trains what strangers bring here and in Hugging Face's Trainer, from the same weights and rows, and prints a table: the
habit, the Trainer's losses and ours, the loss of the evaluation, and the fields of trainer_state.json that differ.

Exits with 1 where something differs by more than LIMIT, or a job does not complete.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import both

import service  # found by both
import steps

LIMIT = 1e-4
# Of this machine and this run; `num_input_tokens_seen` is the Trainer's only where it is asked to count.
OWN_FIELDS = {"best_model_checkpoint", "log_history", "stateful_callbacks", "num_input_tokens_seen"}
OWN_ENTRIES = {"runtime", "per_second"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--keep", type=Path, help="a folder that the cases are written to and stay in")
    parser.add_argument("names", nargs="*", help="habits to compare; all where none is named")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="habits.") as scratch:
        folder = options.keep or Path(scratch)
        names = [name for name in listed(options) if not options.names or name in options.names]
        missing = [name for name in names if not (folder / name).exists()]
        if missing:
            both.peers(options, "habits.py", folder, *missing)
        with service.Daemon(options.traind) as daemon:
            complaints = [compare(daemon, folder / name) for name in names]
    sys.exit(1 if any(complaints) else 0)


def listed(options):
    command = [options.peers_python, both.SCRIPTS / "peers" / "habits.py", "--list"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def compare(daemon, folder):
    """Prints the lines of one habit; returns what is wrong."""
    theirs = json.loads((folder / "trainer.json").read_text())
    job = json.loads((folder / "job.json").read_text())
    job["name"] = folder.name
    job["model"]["name_or_path"] = str(folder / "model")
    for split in ["train", "validation"]:
        job["data"][split] = str(folder / job["data"][split])
    with tempfile.TemporaryDirectory(prefix="output.", dir=folder) as output:
        job["output_dir"] = output
        try:
            run = daemon.run(job)
            ours = run.trainer_state() if job["train"].get("do_train", True) else evaluation(run)
        except service.JobFailed as failure:
            complaints = [str(failure).split("\n")[0]]
            report(folder.name, theirs, {"log_history": []}, complaints)
            return complaints
    complaints = [*entry_complaints(theirs, ours)]
    if "max_steps" in theirs:
        theirs["train_batch_size"] //= job["resources"]["cores"]
        complaints += field_complaints(theirs, ours)
    report(folder.name, theirs, ours, complaints)
    return complaints


def evaluation(run):
    """The log of a job that only evaluates, which writes no state."""
    return {"log_history": [dict(run.job.metrics) | {"step": 0}]}


def entry_complaints(theirs, ours):
    theirs, ours = (list(map(compared, state["log_history"])) for state in (theirs, ours))
    if len(theirs) != len(ours):
        yield f"{len(ours)} entries of the log, the Trainer has {len(theirs)}"
    for one, other in zip(theirs, ours, strict=False):
        for key in sorted(one.keys() | other.keys()):
            if key not in one:
                # Metrics are of the job's task; the Trainer was given none.
                continue
            if key not in other or not steps.difference(one[key], other[key]) <= LIMIT:
                yield f"step {one.get('step')}: {key} {other.get(key)}, the Trainer has {one[key]}"


def compared(entry):
    return {key: value for key, value in entry.items() if not any(own in key for own in OWN_ENTRIES)}


def field_complaints(theirs, ours):
    for key in sorted(theirs.keys() | ours.keys()):
        if key not in OWN_FIELDS and theirs.get(key) != ours.get(key):
            yield f"trainer_state.json: {key} {ours.get(key)}, the Trainer has {theirs.get(key)}"


def report(name, theirs, ours, complaints):
    print(f"{name:44} {losses(theirs):46} {losses(ours):46} {'differs' if complaints else 'equal'}", flush=True)
    for complaint in complaints[:6]:
        print(f"    {complaint}", flush=True)


def losses(state):
    """The first two and the last of the steps, and that of the last evaluation."""
    found = [entry["loss"] for entry in state["log_history"] if "loss" in entry]
    evaluated = [entry["eval_loss"] for entry in state["log_history"] if "eval_loss" in entry]
    shown = [f"{loss:.6f}" for loss in [*found[:2], *found[2:][-1:]]]
    return " ".join(shown) + (f" eval {evaluated[-1]:.6f}" if evaluated else "")


if __name__ == "__main__":
    both.run(main)
