"""Output folders of jobs on preferences, loaded by transformers and trained on by TRL's trainers: their logs must be
those of traind from the same folder.

usage: preference_outputs.py TRAIND REPOSITORY SCRATCH
"""

import json
import os
import shutil
import sys
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
sys.path.append(str(Path(__file__).parent.parent / "fixtures"))

import transformers
from outputs import listening, run_alone

import preference_runs

STEPS = 3
TASKS = ["reward", "orpo", "cpo", "kto"]
# Relative to the value and 1: at the first step, whose weights are the same, and later.
LIMIT_FIRST, LIMIT = 1e-5, 1e-3


def write_model(folder, repository, task):
    """The model of the fixtures' runs, with the tokenizer of their conversations."""
    fixtures, chat = repository / "daemon/runner/fixtures", repository / "loader/tests/fixtures/chat"
    source = fixtures / "preferences" / "reward" if task == "reward" else fixtures / "sft"
    folder.mkdir()
    files = [source / "config.json", source / "model.safetensors"]
    files += [chat / "tokenizer" / name for name in ("tokenizer.json", "tokenizer_config.json")]
    for file in files:
        shutil.copy(file, folder)
    shutil.copy(chat / "templates" / "chatml_generation.jinja", folder / "chat_template.jinja")


def train(traind, folder, task, model, output, run):
    """Runs a job without a daemon on one core, and returns its log."""
    job = {
        "name": output,
        "model": {"name_or_path": model, "task": task},
        "data": {"train": "rows.jsonl", "validation": "first.jsonl"} | preference_runs.DATA,
        "train": preference_runs.TRAIN
        | {"max_steps": STEPS, "train_sampling_strategy": "sequential", "logging_steps": 1, "save_strategy": "no"},
        "resources": {"platform": "cpu", "cores": 1},
        "output_dir": output,
        task: run["settings"],
    }
    state = run_alone(traind, folder, job) / "trainer_state.json"
    log = json.loads(state.read_text())["log_history"]
    return [entry for entry in log if "loss" in entry or "eval_loss" in entry]


def loaded(folder, task):
    """The model that transformers must load without a word."""
    kind = transformers.AutoModelForSequenceClassification if task == "reward" else transformers.AutoModelForCausalLM
    with listening("transformers") as said:
        model, report = kind.from_pretrained(folder, output_loading_info=True)
    lacking = [name for name in ("missing_keys", "unexpected_keys", "mismatched_keys") if report[name]]
    messages = said.logged + said.warned
    if lacking or messages:
        sys.exit(f"{folder.name}: transformers says {lacking} {messages}")
    return model


def farthest(task, ours, theirs):
    """The largest difference of two logs, whose entries have the same values."""
    if len(ours) != len(theirs):
        sys.exit(f"{task}: {len(ours)} entries, TRL has {len(theirs)}")
    largest = 0.0
    for step, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        for name, value in their.items():
            difference = abs(our[name] - value) / (1 + abs(value))
            if not difference <= (LIMIT_FIRST if step == 0 else LIMIT):
                sys.exit(f"{task}, entry {step}: {name} is {our[name]}, and {value} by TRL")
            largest = max(largest, difference)
    return largest


def main():
    traind, repository, scratch = sys.argv[1:]
    repository = Path(repository)
    fixture = json.loads((repository / "daemon/runner/fixtures/preferences/preferences.json").read_text())
    for task in TASKS:
        folder, run = Path(scratch) / task, fixture["runs"][task]
        folder.mkdir()
        write_model(folder / "model", repository, task)
        rows = fixture["rows"][run["rows"]]
        for name, content in [("rows.jsonl", rows), ("first.jsonl", rows[:8])]:
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in content))
        train(traind, folder, task, "model", "out", run)
        preference_runs.TRAIN["max_steps"] = STEPS
        chat = repository / "loader/tests/fixtures/chat"
        theirs = preference_runs.history(task, rows, run["settings"], None, loaded(folder / "out", task), chat)
        ours = train(traind, folder, task, "out", "again", run)
        print(f"{task}: loaded; logs from there differ by at most {farthest(task, ours, theirs):.1e}")


if __name__ == "__main__":
    main()
