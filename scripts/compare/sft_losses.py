"""Follows TRL's SFTTrainer on conversations, prompts with completions and texts, from the same random weights and rows:
losses, learning rates and gradient norms of each step, with and without adapters and packing.

Exits with 1 where they differ by more than the limits in steps.py.
"""

import json
import sys
import tempfile
from pathlib import Path

import both
import families
from both import peers

import steps  # found by both

LEARNING_RATE = 2e-3
STEPS = 20
ROWS = 400
EOS_TOKEN = "[SEP]"
CHAT_TEMPLATE = """{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{ message.content + eos_token }}{% endgeneration %}
    {%- else %}
        {{- '[CLS]' + message.content + eos_token }}
    {%- endif %}
{%- endfor %}
"""

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


def main():
    parser = both.parser(__doc__, batch=4)
    parser.add_argument("--sft", nargs="*", default=[], help="families to compare; all where none is named")
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.sft or case[0] in options.sft]
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
        add_template(model)
        given = map(json.dumps, cases)
        amounts = [STEPS, options.batch, LEARNING_RATE]
        peers(options, "trl_trainer.py", "sft", model, rows, reference, adapters, *amounts, *given)
        for number, (case, history) in enumerate(zip(cases, json.loads(reference.read_text()), strict=True)):
            output = scratch / f"output-{number}"
            ours = run_traind(options, model, rows, output, case, adapters / str(number))
            pairs = steps.pair(history, ours)
            complaints = steps.complaints(pairs, STEPS)
            steps.report(f"{family}, {kind}", "TRL", case, pairs, complaints)
            wrong = wrong or bool(complaints)
    return wrong


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


def add_template(model):
    (model / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    settings = model / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"eos_token": EOS_TOKEN}))


def run_traind(options, model, rows, output, case, adapter):
    settings = {name: value for name, value in case.items() if name != "peft"}
    data = {"train": str(rows), **settings}
    section = families.model_section("sft", model)
    peft = {"method": "lora", "adapter_name_or_path": str(adapter)} if "peft" in case else {}
    return both.run_traind(
        options, "sft-losses", section, data, LEARNING_RATE, STEPS, output, sections={"peft": peft}, save_strategy="no"
    )


if __name__ == "__main__":
    both.run(main)
