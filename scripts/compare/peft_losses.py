"""Follows PEFT and Hugging Face's Trainer with adapters, and the Trainer with frozen parameters, from the same random
weights, adapters and rows: losses, learning rates and gradient norms of each step. PEFT must load what traind saved.

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

LEARNING_RATE = 1e-2
STEPS = 20
CASES = {
    ("bert", "sequence-classification"): [
        {"freeze": ["embeddings", "encoder.layer.0"]},
        {"r": 4, "lora_alpha": 16},
        {"r": 4, "target_modules": "all-linear", "use_dora": True},
        {"r": 4, "target_modules": ["dense"], "use_rslora": True, "bias": "all", "layers_to_transform": [1]},
    ],
    # PEFT names no modules for DistilBERT.
    ("distilbert", "token-classification"): [
        {"r": 4, "target_modules": ["q_lin", "v_lin"], "modules_to_save": ["sa_layer_norm"]}
    ],
    ("roberta", "masked-lm"): [{"r": 4, "bias": "lora_only"}],
    # Nor for ModernBERT.
    ("modernbert", "masked-lm"): [{"r": 4, "target_modules": ["Wqkv"]}, {"r": 4, "target_modules": "all-linear"}],
    # Nor for EuroBERT.
    ("eurobert", "sequence-classification"): [{"r": 4, "target_modules": ["q_proj", "v_proj"]}],
    ("gpt2", "causal-lm"): [{"r": 4}, {"r": 4, "target_modules": "all-linear", "use_dora": True}],
    ("llama", "causal-lm"): [{"r": 4, "target_modules": "all-linear"}, {"r": 4, "use_dora": True}],
    ("mistral", "sequence-classification"): [{"r": 4, "lora_alpha": 32}],
    ("qwen2", "causal-lm"): [{"r": 4, "bias": "lora_only"}],
    ("qwen3", "causal-lm"): [{"r": 4}],
    ("gemma", "causal-lm"): [{"r": 4}],
    ("gemma3_text", "causal-lm"): [{"r": 4}],
    ("olmo2", "causal-lm"): [{"r": 4, "target_modules": "all-linear"}],
    ("phi3", "causal-lm"): [{"r": 4, "target_modules": ["qkv_proj", "down_proj"]}],
    ("xlm-roberta", "sequence-classification"): [{"r": 4}],
    # Nor for XLM-RoBERTa-XL.
    ("xlm-roberta-xl", "sequence-classification"): [{"r": 4, "target_modules": ["query", "value"]}],
    # Nor for these, whose projections are one matrix in files.
    ("nomic_bert", "masked-lm"): [
        {"r": 4, "target_modules": ["q_proj", "v_proj"]},
        {"r": 4, "target_modules": "all-linear", "use_dora": True},
    ],
    ("gte", "sequence-classification"): [{"r": 4, "target_modules": ["q_proj", "k_proj", "v_proj", "gate_proj"]}],
    ("jina_embeddings_v3", "masked-lm"): [{"r": 4, "target_modules": ["q_proj", "v_proj"]}],
    ("t5", "seq2seq-lm"): [{"r": 4}, {"r": 4, "target_modules": "all-linear", "use_dora": True}],
    ("mt5", "seq2seq-lm"): [{"r": 4, "target_modules": ["q", "wo"], "use_rslora": True}],
    ("bart", "seq2seq-lm"): [{"r": 4, "bias": "all"}],
    ("mbart", "seq2seq-lm"): [{"r": 4, "target_modules": ["k_proj", "fc2"], "layers_to_transform": [1]}],
    ("vit", "image-classification"): [
        {"r": 4, "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["classifier"]},
        {"r": 4, "target_modules": "all-linear", "modules_to_save": ["classifier"], "use_dora": True},
        {"freeze": ["embeddings"]},
    ],
    ("deit", "image-classification"): [
        {"target_modules": ["fc1", "fc2"], "modules_to_save": ["classifier"], "use_rslora": True, "bias": "all"},
    ],
}


def main():
    parser = both.parser(__doc__, batch=16)
    parser.add_argument("--peft", nargs="*", default=[], help="families to compare; all where none is named")
    options = parser.parse_args()
    chosen = {pair: cases for pair, cases in CASES.items() if not options.peft or pair[0] in options.peft}
    results = [compare(options, *pair, cases) for pair, cases in chosen.items()]
    print(f"(largest relative differences; limits: {steps.LIMIT_FIRST} at the first step, {steps.LIMIT} later)")
    sys.exit(1 if any(results) else 0)


def compare(options, family, task, cases):
    """Prints a line for each case; returns whether anything is wrong."""
    wrong = False
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        rows, model, reference = scratch / "train.jsonl", scratch / "model", scratch / "reference.json"
        adapters = scratch / "adapters"
        peers(options, "task_rows.py", task, options.data / "train.parquet", rows)
        peers(options, "random_model.py", family, task, options.model, model)
        given = map(json.dumps, cases)
        peers(
            options, "peft_trainer.py", task, model, rows, reference, adapters, STEPS, options.batch, LEARNING_RATE, *given
        )  # fmt: skip
        for number, (case, history) in enumerate(zip(cases, json.loads(reference.read_text()), strict=True)):
            output = scratch / f"output-{number}"
            ours = run_traind(options, task, model, rows, output, case, adapters / str(number))
            pairs = steps.pair(history, ours)
            complaints = steps.complaints(pairs, STEPS)
            if "freeze" not in case:
                peers(options, "load_adapter.py", task, model, output)
            steps.report(f"{family}, {task}", "PEFT", case, pairs, complaints)
            wrong = wrong or bool(complaints)
    return wrong


def run_traind(options, task, model, rows, output, case, adapter):
    data = {"train": str(rows), **families.DATA[task]}
    section = families.model_section(task, model)
    train = {"save_strategy": "no"}
    if "freeze" in case:
        train["freeze"], peft = case["freeze"], {}
    else:
        peft = {"method": "lora", "adapter_name_or_path": str(adapter)}
    return both.run_traind(
        options, "peft-losses", section, data, LEARNING_RATE, STEPS, output, sections={"peft": peft}, **train
    )


if __name__ == "__main__":
    both.run(main)
