"""Every task of every family, for the comparisons that go through all of them."""

import argparse
import sys
from pathlib import Path

ENCODER_TASKS = ["sequence-classification", "token-classification", "question-answering", "masked-lm"]
FAMILIES = {
    "bert": ENCODER_TASKS,
    "distilbert": ENCODER_TASKS,
    "roberta": ENCODER_TASKS,
    "xlm-roberta": ENCODER_TASKS,
    "gpt2": ["sequence-classification", "causal-lm"],
}
# As peers/features.py prepares the rows for transformers.
DATA = {
    "sequence-classification": {"max_length": 64},
    "token-classification": {"max_length": 64},
    "question-answering": {"max_length": 64, "doc_stride": 16, "id": "id", "pad_to_max_length": True},
    "masked-lm": {"max_length": 64, "line_by_line": True, "mlm_probability": 1.0, "whole_word_mask": True},
    "causal-lm": {"block_size": 64},
}


def parser(doc):
    """The options that all of these comparisons have."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--model", required=True, type=Path, help="a folder with a tokenizer")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--family", required=True, choices=["all", *FAMILIES])
    parser.add_argument("--task", choices=sorted(DATA))
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16, help="rows a step, over all cores")
    return parser


def pairs(options):
    """The families and tasks that were asked for."""
    families = FAMILIES if options.family == "all" else [options.family]
    found = [(family, task) for family in families for task in FAMILIES[family] if options.task in (None, task)]
    if not found:
        sys.exit(f"{options.family} has no {options.task}; it has {', '.join(FAMILIES[options.family])}")
    return found


def model_section(task, folder):
    labels = {"num_labels": 3} if task == "sequence-classification" else {}
    return {"name_or_path": str(folder), "task": task, **labels}
