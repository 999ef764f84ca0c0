"""Generates texts for the same prompts with `traind generate` and with transformers' `generate`, for every family, with a
model alone and with adapters on it.

Prints a line for each family, folder and way of generating. Exits with 1 where tokens differ.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import families
from both import peers

MAX_NEW_TOKENS = 16
WAYS = {"greedy": [], "4 beams": ["--num-beams", "4"]}
GENERATIVE = {
    family: task for family, tasks in families.FAMILIES.items() for task in tasks if task in ("causal-lm", "seq2seq-lm")
}
# A family with other angles for rows of more tokens, which most texts outgrow while they are written.
LONG_POSITIONS = 14
GENERATIVE["phi3-long"] = "causal-lm"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--model", required=True, type=Path, help="a folder with a tokenizer")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--seed", type=int, default=1, help="of the adapters")
    parser.add_argument("family", nargs="*", default=list(GENERATIVE), help=f"default: {' '.join(GENERATIVE)}")
    options = parser.parse_args()
    unknown = [family for family in options.family if family not in GENERATIVE]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: expected some of {', '.join(GENERATIVE)}")
    sys.exit(1 if sum(differing(options, family) for family in options.family) else 0)


def differing(options, family):
    """Prints a line for each way; returns the number of texts that differ."""
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        model, adapters, expected = (Path(scratch) / name for name in ["model", "adapters", "expected.json"])
        peers(options, "random_model.py", family.removesuffix("-long"), GENERATIVE[family], options.model, model)
        if family.endswith("-long"):
            turn_otherwise(model / "config.json")
        texts = options.data / "validation.csv"
        peers(options, "generate.py", model, adapters, texts, MAX_NEW_TOKENS, options.seed, expected)
        expected = json.loads(expected.read_text())
        prompts = expected["prompts"]
        differences = 0
        for folder in [model, adapters]:
            for way, arguments in WAYS.items():
                found = generate(options, folder, prompts, arguments)
                pairs = list(zip(prompts, expected[folder.name][way], found, strict=True))
                wrong = [pair for pair in pairs if pair[1] != pair[2]]
                differences += report(f"{family:12} {folder.name:8} {way:8}", wrong, found)
    return differences


def turn_otherwise(path):
    """Puts LongRoPE into a config."""
    config = json.loads(path.read_text())
    pairs = config["hidden_size"] // config["num_attention_heads"] // 2
    config["original_max_position_embeddings"] = LONG_POSITIONS
    config["rope_parameters"] = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0 + 0.1 * pair for pair in range(pairs)],
        "long_factor": [2.0 + pair for pair in range(pairs)],
    }
    path.write_text(json.dumps(config))


def generate(options, model, prompts, arguments):
    command = [
        options.traind,
        "generate",
        model,
        *arguments,
        "--max-new-tokens",
        str(MAX_NEW_TOKENS),
        "--output",
        "json",
    ]
    reply = subprocess.run([*command, "--", *prompts], stdout=subprocess.PIPE)
    if reply.returncode:
        sys.exit(f"traind generate ended with {reply.returncode}")
    return [text["tokens"] for text in json.loads(reply.stdout)]


def report(case, wrong, found):
    different = len({token for tokens in found for token in tokens})
    ended = sum(len(tokens) < MAX_NEW_TOKENS for tokens in found)
    counts = f"{len(found)} texts of {different} different tokens, {ended} end early"
    print(f"{case} {f'{len(wrong)} differ' if wrong else 'equal'} ({counts})", flush=True)
    for prompt, expected, tokens in wrong[:3]:
        print(f"  {prompt!r}\n    transformers {expected}\n    traind       {tokens}")
    return len(wrong)


if __name__ == "__main__":
    main()
