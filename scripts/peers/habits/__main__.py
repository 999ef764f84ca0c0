"""Common variations of data, tokenizers and configs: each is trained with Hugging Face's Trainer on the CPU as
transformers' example scripts do it, and written down for traind to follow.

A case is a folder with a tiny model, rows, `job.json` (what traind is given), `trainer.json` (what the Trainer logged, or
its error), `rows.json` (the rows that the Trainer was given) and `case.json` (what is expected).

usage: habits OUT_DIR [NAME...]         all where none is named
       habits OUT_DIR --drawn NAME      trains the model that traind drew for the case
       habits --list
"""

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import torch
import transformers
from safetensors.torch import load_file

import cases  # noqa: F401 registers them
from case import CASES
from features import pad
from folder import TASKS, write_json, write_model


def main():
    # The models are too small to share.
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return
    out, *names = sys.argv[1:]
    if names[:1] == ["--drawn"]:
        train_drawn(CASES[names[1]], Path(out) / names[1])
        return
    failed = [name for name in names or CASES if not written(CASES[name], Path(out) / name)]
    sys.exit(1 if failed else 0)


def written(case, folder):
    """Writes the case's folder; returns whether the Trainer did with it what is expected."""
    torch.manual_seed(0)
    write_folder(case, folder)
    if case.is_drawn:
        return True
    try:
        log = train(case, folder / "model")
    except BaseException as error:  # tokenizers panics
        if isinstance(error, KeyboardInterrupt):
            raise
        if case.trained:
            print(f"{case.name}: the Trainer does not train it", file=sys.stderr)
            traceback.print_exc()
        log = {"error": f"{type(error).__name__}: {error}"}
    write_json(folder / "trainer.json", log)
    if ("error" not in log) and not case.trained:
        print(f"{case.name}: the Trainer trains it", file=sys.stderr)
    return ("error" not in log) == case.trained


def train_drawn(case, folder):
    """Trains `drawn`, where what the model folder has is as it was, and the head as transformers draws one."""
    stored, drawn = (load_file(folder / name / "model.safetensors") for name in ["model", "drawn"])
    usual = loaded(case, folder / "model").state_dict()
    for name, values in drawn.items():
        if name in stored and stored[name].shape == values.shape:
            assert torch.equal(stored[name], values), f"{name} is not as it was"
        else:
            distance = distribution_distance(values.flatten(), usual[name].flatten())
            assert distance < 1.95 * (2 / values.numel()) ** 0.5, f"{name} is drawn otherwise: {distance}"
    write_json(folder / "trainer.json", train(case, folder / "drawn"))


def distribution_distance(one, other):
    """The statistic of Kolmogorov and Smirnov for two samples."""
    places = torch.cat([one, other]).sort().values
    share = lambda sample: torch.searchsorted(sample.sort().values, places, right=True) / sample.numel()
    return (share(one) - share(other)).abs().max().item()


def write_folder(case, folder):
    """Writes everything but the Trainer's log."""
    folder.mkdir(parents=True)
    write_model(case, folder / "model")
    for name, rows in [("train", case.rows), ("validation", case.evaluated)]:
        content = case.content(rows) if case.content else jsonl(rows)
        path = folder / f"{name}.{case.file}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    write_json(folder / "job.json", job(case))
    write_json(folder / "rows.json", case.rows)
    expected = {"refusal": case.refusal, "reader": case.reader, "file": f"train.{case.file}", "is_drawn": case.is_drawn}
    write_json(folder / "case.json", expected)


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def settings(case):
    """Both sides' arguments; `arguments` are the Trainer's alone."""
    return {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "seed": 42,
        **case.train,
    }


def trainer_arguments(case):
    """The Trainer's, without those that `arguments` replaces by None."""
    usual = {"do_train": True, "save_strategy": "no", "report_to": "none", "use_cpu": True, "disable_tqdm": True}
    given = usual | {"train_sampling_strategy": "sequential"} | settings(case) | case.arguments
    return {name: value for name, value in given.items() if value is not None}


def job(case):
    sections = settings(case)
    cores = case.resources.get("cores", 1)
    for key in ["per_device_train_batch_size", "per_device_eval_batch_size"]:
        if sections[key]:
            sections[key] //= cores
    sections = {name: value for name, value in sections.items() if value is not None}
    return {
        "model": {"task": case.task, **case.model},
        "data": {"train": f"train.{case.file}", "validation": f"validation.{case.file}", **case.data},
        "train": {"train_sampling_strategy": "sequential", "save_strategy": "no", **sections},
        "resources": {"platform": "cpu", "cores": cores},
    }


def train(case, model_dir):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
    model = loaded(case, model_dir)
    collator = (case.collator or pad)(tokenizer)
    with tempfile.TemporaryDirectory(prefix="trainer.") as scratch:
        arguments = transformers.TrainingArguments(scratch, **trainer_arguments(case))
        trainer = transformers.Trainer(
            model, arguments, collator, case.features(case.rows, tokenizer),
            case.features(case.evaluated, tokenizer), processing_class=tokenizer, compute_loss_func=loss_of(case),
        )  # fmt: skip
        trainer.remove_callback(transformers.PrinterCallback)
        if case.evaluates_only:
            trainer.evaluate()
            return {"log_history": trainer.state.log_history}
        trainer.train()
        if arguments.eval_strategy == "no":
            trainer.evaluate()
        trainer.save_state()
        state = json.loads((Path(scratch) / "trainer_state.json").read_text())
    return state


def loaded(case, model_dir):
    """The model, with the classes of the job."""
    given = {key: case.model[key] for key in ["num_labels", "problem_type"] if key in case.model}
    return TASKS[case.task].from_pretrained(model_dir, **given, **case.loading)


def loss_of(case):
    """The Trainer counts the labels of all batches of a step; models for classification take no notice of that."""
    if case.train.get("gradient_accumulation_steps", 1) == 1 or not case.task.endswith("-classification"):
        return None

    def mean_over_labels(outputs, labels, num_items_in_batch):
        logits = outputs.logits
        total = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), reduction="sum")
        return total / num_items_in_batch

    return mean_over_labels


if __name__ == "__main__":
    main()
