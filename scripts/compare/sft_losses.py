"""Follows TRL's SFTTrainer on conversations, prompts with completions and texts, from the same random weights and rows:
losses, learning rates and gradient norms of each step, with and without adapters and packing.

Exits with 1 where they differ by more than the limits in steps.py.
"""

import json

import both
import families
import trl_runs

LEARNING_RATE = 2e-3
STEPS = 20
ROWS = 400

BFD = {"max_length": 96, "packing": True}
WRAPPED = {"max_length": 64, "packing": True, "packing_strategy": "wrapped"}
ANSWERS = {"assistant_only_loss": True}
LORA = {"peft": {"r": 4, "target_modules": "all-linear"}}
# Family, kind of rows, and arguments of SFTConfig.
CASES = [
    ("llama", "messages", [ANSWERS | {"max_length": 64}, ANSWERS | BFD, ANSWERS | BFD | LORA, WRAPPED]),
    ("gpt2", "prompts", [{"max_length": 64}, BFD, {"max_length": 64, "completion_only_loss": False}]),
    ("mistral", "texts", [BFD]),
    ("qwen3", "messages", [BFD]),
    ("gemma", "messages", [ANSWERS | BFD]),
    ("phi3", "prompts", [BFD]),
    ("gemma3_text", "messages", [BFD]),
    ("smollm3", "messages", [BFD]),
]


def write_rows(kind, texts, rows):
    """Splits each text: what is asked, and what is to be answered."""
    lines = [json.loads(line)["text"].split() for line in texts.read_text().splitlines()]
    made = [ROW[kind](words) for words in lines if len(words) >= 8]
    rows.write_text("".join(json.dumps(row) + "\n" for row in made[:ROWS]))


def messages(words):
    """Two questions with their answers, of a length that differs from row to row."""
    words = words[: 8 + len(words[0]) * 3]
    parts = [" ".join(words[start::4]) for start in range(4)]
    roles = ["user", "assistant"] * 2
    return {"messages": [{"role": role, "content": part} for role, part in zip(roles, parts, strict=True)]}


def prompt(words):
    middle = len(words) // 2
    return {"prompt": " ".join(words[:middle]), "completion": " " + " ".join(words[middle : middle + 20])}


ROW = {"messages": messages, "prompts": prompt, "texts": lambda words: {"text": " ".join(words[:40])}}


def run_traind(options, model, rows, output, case, adapters, number):
    settings = {name: value for name, value in case.items() if name != "peft"}
    data = {"train": str(rows), **settings}
    section = families.model_section("sft", model)
    peft = {"method": "lora", "adapter_name_or_path": str(adapters / str(number))} if "peft" in case else {}
    return both.run_traind(
        options, "sft-losses", section, data, LEARNING_RATE, STEPS, output, sections={"peft": peft}, save_strategy="no"
    )


TRAINER = trl_runs.Trainer("sft", LEARNING_RATE, STEPS, write_rows, run_traind)

if __name__ == "__main__":
    both.run(lambda: TRAINER.main(__doc__, CASES))
