"""Follows Hugging Face's Trainer with each training argument that changes what is computed, from the same random weights
and rows: the losses, learning rates and gradient norms of each step must be the Trainer's, and other than without it.

Exits with 1 where they differ by more than the limits in steps.py, or where an argument changes nothing.
"""

import json
import sys
import tempfile
from pathlib import Path

import both
import families
from both import peers

import steps  # found by both

LEARNING_RATE = 1e-3
# An epoch ends in between, with a batch that is not full. Not for questions: the Trainer does not count their labels,
# and takes the mean of batches as if all were full.
ROWS = {"question-answering": 1000}
ROWS_MAX = 124
STEPS = 12
# Rows differ in their number of tokens, and so in their number of labels where tokens have labels.
ACCUMULATED = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3}
ARGUMENTS = {
    ("bert", "sequence-classification"): [
        {"label_smoothing_factor": 0.2},
        {"weight_decay": 0.5},
        {"adam_beta1": 0.6},
        {"adam_beta2": 0.9},
        {"adam_epsilon": 1e-3},
        {"max_grad_norm": 0.05},
        {"max_grad_norm": 0.0},
        {"optim": "sgd", "learning_rate": 0.5, "weight_decay": 0.01},
        {"optim": "adafactor", "weight_decay": 0.01},
        {"warmup_steps": 4},
        {"warmup_steps": 0.3, "lr_scheduler_type": "cosine"},
        {"lr_scheduler_type": "cosine_with_restarts", "lr_scheduler_kwargs": {"num_cycles": 2}},
        {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 2.0}},
        {"lr_scheduler_type": "constant"},
        {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 2},
        {"lr_scheduler_type": "inverse_sqrt", "warmup_steps": 2},
        {"dataloader_drop_last": True},
        ACCUMULATED,
        {**ACCUMULATED, "label_smoothing_factor": 0.2},
    ],
    ("bert", "token-classification"): [{"label_smoothing_factor": 0.2}, ACCUMULATED],
    ("bert", "masked-lm"): [
        {"label_smoothing_factor": 0.2},
        ACCUMULATED,
        {**ACCUMULATED, "label_smoothing_factor": 0.2},
    ],
    ("bert", "question-answering"): [ACCUMULATED],
    ("gpt2", "causal-lm"): [{"label_smoothing_factor": 0.2}, ACCUMULATED],
    ("gpt2", "sequence-classification"): [ACCUMULATED],
}


def main():
    parser = both.parser(__doc__, batch=16)
    parser.add_argument("--arguments", nargs="*", default=[], help="those to compare; all where none is named")
    options = parser.parse_args()
    results = [compare(options, *pair, chosen(options, cases)) for pair, cases in ARGUMENTS.items()]
    print(f"(largest relative differences; limits: {steps.LIMIT_FIRST} at the first step, {steps.LIMIT} later)")
    sys.exit(1 if any(results) else 0)


def chosen(options, cases):
    return [case for case in cases if not options.arguments or case.keys() & set(options.arguments)]


def compare(options, family, task, cases):
    """Prints a line for each argument; returns whether anything is wrong."""
    if not cases:
        return False
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        rows, model, reference = scratch / "train.jsonl", scratch / "model", scratch / "reference.json"
        peers(options, "task_rows.py", task, options.data / "train.parquet", rows, ROWS.get(task, ROWS_MAX))
        peers(options, "random_model.py", family, task, options.model, model)
        cases = [{}, *cases]
        more = map(json.dumps, cases)
        peers(options, "task_trainer.py", task, model, rows, reference, STEPS, options.batch, LEARNING_RATE, *more)
        theirs = json.loads(reference.read_text())
        plain, wrong = theirs[0], False
        for number, (arguments, history) in enumerate(zip(cases, theirs, strict=True)):
            ours = run_traind(options, task, model, rows, scratch / f"output-{number}", arguments)
            pairs = steps.pair(history, ours)
            complaints = steps.complaints(pairs, STEPS)
            if arguments and not steps.complaints(steps.pair(plain, history), STEPS):
                complaints.append("the argument changes nothing")
            report(family, task, arguments, pairs, complaints)
            wrong = wrong or bool(complaints)
    return wrong


def run_traind(options, task, model, rows, output, arguments):
    data = {"train": str(rows), **families.DATA[task]}
    section = families.model_section(task, model)
    train = {"save_strategy": "no", **arguments}
    learning_rate = train.pop("learning_rate", LEARNING_RATE)
    if "per_device_train_batch_size" in train:
        train["per_device_train_batch_size"] //= options.cores
    return both.run_traind(options, "argument-losses", section, data, learning_rate, STEPS, output, **train)


def report(family, task, arguments, pairs, complaints):
    differences = ", ".join(f"{field} {steps.largest_difference(pairs, field):.1e}" for field in steps.FIELDS)
    settings = ", ".join(f"{name}: {value}" for name, value in arguments.items()) or "as usual"
    print(
        f"{family}, {task}, {settings}\n    {'not the Trainer' if complaints else 'equal'}: {differences}", flush=True
    )
    for complaint in complaints:
        print(f"    {complaint}", flush=True)


if __name__ == "__main__":
    both.run(main)
