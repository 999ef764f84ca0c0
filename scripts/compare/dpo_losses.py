"""Follows TRL's DPOTrainer on conversations and texts with two completions, from the same random weights and rows: losses,
learning rates, gradient norms, rewards and log-probabilities of each step, with every loss, with and without adapters,
and beside another reference.

Exits with 1 where they differ by more than the limits in steps.py.
"""

import json

import both
import families
import trl_runs

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


TRAINER = trl_runs.Trainer("dpo", LEARNING_RATE, STEPS, write_rows, run_traind, metric_complaints)

if __name__ == "__main__":
    both.run(lambda: TRAINER.main(__doc__, CASES))
