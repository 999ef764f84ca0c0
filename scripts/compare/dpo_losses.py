"""Follows TRL's DPOTrainer on conversations and texts with two completions, from the same random weights and rows: losses,
learning rates, gradient norms, rewards and log-probabilities of each step, with every loss, with and without adapters,
and beside another reference.

Exits with 1 where they differ by more than the limits in steps.py.
"""

import json
import sys
import tempfile
from pathlib import Path

import both
import families
import sft_losses
from both import peers

import steps  # found by both

LEARNING_RATE = 1e-3
STEPS = 20
ROWS = 160
# Metrics of a step, in nats. They are differences of sums over tokens, so that rounding counts by its size.
METRICS = ["rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected"]
METRICS_LIMIT = 2e-2
LORA = {"peft": {"r": 4, "target_modules": "all-linear"}}
OTHER = {"reference_seed": 1234}
SHORT = {"max_length": 48}
LOSSES = [
    *({"loss_type": loss} for loss in ["nca_pair", "bco_pair", "sppo_hard", "aot", "aot_unpaired"]),
    *({"loss_type": loss} for loss in ["apo_zero", "apo_down", "discopop", "sigmoid_norm"]),
    {"loss_type": "exo_pair", "label_smoothing": 1e-3},
    {"loss_type": ["sigmoid", "bco_pair", "sft"], "loss_weights": [0.8, 0.2, 1.0]},
    {"loss_type": "sigmoid", "ld_alpha": 0.5, "use_weighting": True},
    {"loss_type": "sigmoid", "f_divergence_type": "js_divergence"},
]
# Family, kind of rows, and arguments of DPOConfig.
CASES = [
    ("llama", "messages", [SHORT, SHORT | LORA, SHORT | {"loss_type": "ipo", "beta": 0.3}, SHORT | {"loss_type": "hinge"}]),
    ("gpt2", "texts", [SHORT, SHORT | {"loss_type": "robust", "label_smoothing": 0.1}, SHORT | LORA, SHORT | OTHER]),
    ("qwen3", "implicit", [SHORT, SHORT | OTHER | LORA]),
    ("llama", "implicit", [SHORT | OTHER | loss for loss in LOSSES]),
]  # fmt: skip
DPO_KEYS = ["beta", "loss_type", "loss_weights", "label_smoothing", "ld_alpha", "use_weighting", "f_divergence_type"]


def main():
    parser = both.parser(__doc__, batch=4)
    parser.add_argument("--dpo", nargs="*", default=[], help="families to compare; all where none is named")
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.dpo or case[0] in options.dpo]
    results = [compare(options, *case) for case in chosen]
    print(f"(largest relative differences; limits: {steps.LIMIT_FIRST} at the first step, {steps.LIMIT} later)")
    sys.exit(1 if any(results) else 0)


def compare(options, family, kind, cases):
    """Prints a line for each case; returns whether anything is wrong."""
    wrong = False
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        texts, rows, model = scratch / "texts.jsonl", scratch / "train.jsonl", scratch / "model"
        reference, adapters = scratch / "reference.json", scratch / "adapters"
        peers(options, "task_rows.py", "causal-lm", options.data / "train.parquet", texts)
        write_rows(kind, texts, rows)
        peers(options, "random_model.py", family, "causal-lm", options.model, model)
        sft_losses.add_template(model)
        given = map(json.dumps, cases)
        amounts = [STEPS, options.batch, LEARNING_RATE]
        peers(options, "trl_trainer.py", "dpo", model, rows, reference, adapters, *amounts, *given)
        for number, (case, history) in enumerate(zip(cases, json.loads(reference.read_text()), strict=True)):
            output = scratch / f"output-{number}"
            ours = run_traind(options, model, rows, output, case, adapters, number)
            pairs = steps.pair(history, ours)
            complaints = steps.complaints(pairs, STEPS) + metric_complaints(history, ours)
            steps.report(f"{family}, {kind}", "TRL", case, pairs, complaints)
            wrong = wrong or bool(complaints)
    return wrong


def metric_complaints(reference, ours):
    """The metrics whose largest difference is too large."""
    entries = list(zip(steps.by_step(reference).values(), steps.by_step(ours).values(), strict=True))
    differences = {name: max(abs(mine[name] - theirs[name]) for theirs, mine in entries) for name in METRICS}
    return [f"{name}: {worst:.1e}" for name, worst in differences.items() if worst > METRICS_LIMIT]


def write_rows(kind, texts, rows):
    """Makes pairs of the texts that are long enough."""
    lines = [json.loads(line)["text"].split() for line in texts.read_text().splitlines()]
    made = [ROW[kind](words) for words in lines if len(words) >= 12]
    rows.write_text("".join(json.dumps(row) + "\n" for row in made[:ROWS]))


def completions(words):
    """A question and two answers of different lengths, which differ from row to row."""
    first = 4 + len(words[0]) % 3
    second = first + 3 + len(words[1]) % 4
    return [" ".join(part) for part in [words[:first], words[first:second], words[second : second + 6]]]


def messages(words):
    asked, chosen, rejected = completions(words)
    return {
        "prompt": [{"role": "user", "content": asked}],
        "chosen": [{"role": "assistant", "content": chosen}],
        "rejected": [{"role": "assistant", "content": rejected}],
    }


def text_row(words):
    asked, chosen, rejected = completions(words)
    return {"prompt": asked, "chosen": f" {chosen}", "rejected": f" {rejected}"}


def implicit(words):
    row = messages(words)
    return {name: row["prompt"] + row[name] for name in ["chosen", "rejected"]}


ROW = {"messages": messages, "texts": text_row, "implicit": implicit}


def run_traind(options, model, rows, output, case, adapters, number):
    dpo = {name: value for name, value in case.items() if name in DPO_KEYS}
    if "reference_seed" in case:
        dpo["ref_model_name_or_path"] = str(adapters / f"reference-{number}")
    data = {"train": str(rows), "max_length": case["max_length"]}
    section = families.model_section("dpo", model)
    peft = {"method": "lora", "adapter_name_or_path": str(adapters / str(number))} if "peft" in case else {}
    sections = {"peft": peft, "dpo": dpo}
    return both.run_traind(
        options, "dpo-losses", section, data, LEARNING_RATE, STEPS, output, sections=sections, save_strategy="no"
    )


if __name__ == "__main__":
    both.run(main)
