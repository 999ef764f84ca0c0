"""Trains what strangers bring here and in Hugging Face's Trainer, from the same weights and rows, and prints a table:
the habit, the Trainer's losses and ours, the loss of the evaluation, and the fields of trainer_state.json that differ;
for a case that traind refuses, the error. Then the habits of `peers/jobs`, with TRL, PEFT and Seq2SeqTrainer, and what
they save.

Exits with 1 where something differs by more than LIMIT, or a job does not end as expected.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import both
import job_cases

import service  # found by both
import steps

LIMIT = 1e-4
# Fields of this machine and this run; `num_input_tokens_seen` is the Trainer's only where it is asked to count.
OWN_FIELDS = {"best_model_checkpoint", "log_history", "stateful_callbacks", "num_input_tokens_seen"}
OWN_ENTRIES = {"runtime", "per_second", "preparation_time"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--data-python", required=True, help="an interpreter with datasets")
    parser.add_argument("--jobs-python", required=True, help="an interpreter with TRL, PEFT and Pillow")
    parser.add_argument("--keep", type=Path, help="a folder that the cases are written to and stay in")
    parser.add_argument("names", nargs="*", help="habits to compare, or the beginnings of their names; all by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="habits.") as scratch:
        folder = options.keep or Path(scratch)
        names = chosen(options, listed(options))
        jobs = chosen(options, job_cases.listed(options))
        missing = [name for name in names if not (folder / name).exists()]
        unlike = not written(options, folder, missing)
        with service.Daemon(options.traind) as daemon:
            complaints = [compare(options, daemon, folder / name) for name in names]
            different = job_cases.differing(options, daemon, folder / "jobs", jobs)
    print(f"{len(names) + len(jobs)} habits, {sum(map(bool, complaints)) + len(different)} of which differ")
    sys.exit(1 if unlike or any(complaints) or different else 0)


def chosen(options, names):
    return [name for name in names if name.startswith(tuple(options.names) or "")]


def written(options, folder, names):
    """Writes the cases; returns whether the Trainer and datasets do with them what is expected."""
    if not names:
        return True
    commands = [(options.peers_python, "habits"), (options.data_python, "habit_rows.py")]
    commands = [[python, both.SCRIPTS / "peers" / program, folder, *names] for python, program in commands]
    return not any([subprocess.run(command).returncode for command in commands])


def listed(options):
    command = [options.peers_python, both.SCRIPTS / "peers" / "habits", "--list"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def compare(options, daemon, folder):
    """Prints the lines of one habit; returns what is wrong."""
    case = json.loads((folder / "case.json").read_text())
    if case["is_drawn"]:
        draw(options, daemon, folder)
    theirs = json.loads((folder / "trainer.json").read_text())
    ours, error = run(daemon, folder)
    if case["refusal"]:
        complaints = [] if case["refusal"] in error else [f"expected an error with {case['refusal']!r}"]
        report(folder.name, theirs, ours, "differs" if complaints else "refused", [*complaints, error])
        return complaints
    if error:
        complaints = [error]
    elif "error" in theirs:
        complaints = [f"the Trainer does not train it: {theirs['error']}"]
    else:
        complaints = [*entry_complaints(theirs, ours), *field_complaints(theirs, ours, job_of(folder))]
    report(folder.name, theirs, ours, "differs" if complaints else "equal", complaints)
    return complaints


def run(daemon, folder, **train):
    """The state that traind's job leaves, or the error that it ends with."""
    job = job_of(folder)
    job["train"] |= train
    with tempfile.TemporaryDirectory(prefix="output.", dir=folder) as output:
        job["output_dir"] = output
        try:
            done = daemon.run(job)
            return done.trainer_state() if job["train"].get("do_train", True) else evaluation(done), ""
        except service.JobFailed as failure:
            return {"log_history": []}, str(failure).removesuffix("\n").replace("\n", " ")


def job_of(folder):
    job = json.loads((folder / "job.json").read_text())
    job["name"] = folder.name
    job["model"]["name_or_path"] = str(folder / "model")
    for split in ["train", "validation"]:
        job["data"][split] = str(folder / job["data"][split])
    return job


def draw(options, daemon, folder):
    """Saves the model as traind begins with it, and lets the Trainer train that."""
    job = job_of(folder)
    job["train"] |= {"learning_rate": 0.0, "max_steps": 1}
    job["output_dir"] = str(folder / "drawn")
    daemon.run(job)
    both.peers(options, "habits", folder.parent, "--drawn", folder.name)


def evaluation(run):
    """The log of a job that only evaluates, which writes no state."""
    return {"log_history": [dict(run.job.metrics) | {"step": 0, "epoch": 0}]}


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


def field_complaints(theirs, ours, job):
    if "max_steps" not in theirs:
        return
    theirs["train_batch_size"] //= job["resources"]["cores"]
    for key in sorted(theirs.keys() | ours.keys()):
        if key not in OWN_FIELDS and theirs.get(key) != ours.get(key):
            yield f"trainer_state.json: {key} {ours.get(key)}, the Trainer has {theirs.get(key)}"


def report(name, theirs, ours, verdict, lines):
    print(f"{name:44} {losses(theirs):46} {losses(ours):46} {verdict}", flush=True)
    for line in lines[:6]:
        print(f"    {line[:400]}", flush=True)


def losses(state):
    """The first two and the last of the steps, and that of the last evaluation; or the error's name."""
    if "error" in state:
        return state["error"].split(":")[0]
    found = [entry["loss"] for entry in state["log_history"] if "loss" in entry]
    evaluated = [entry["eval_loss"] for entry in state["log_history"] if "eval_loss" in entry]
    shown = [f"{loss:.6f}" for loss in [*found[:2], *found[2:][-1:]]]
    return " ".join(shown) + (f" eval {evaluated[-1]:.6f}" if evaluated else "")


if __name__ == "__main__":
    both.run(main)
