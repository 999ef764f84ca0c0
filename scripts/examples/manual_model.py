"""A small Llama that is trained on manual pages from random weights, and conversations about what they describe.

One page in ten is evaluated, and no part of it is trained on.
"""

import argparse
from pathlib import Path

import rows
import small_models

EVALUATED = 0.1
# The beginnings of pages say what they are about.
CHARACTERS_MAX = 600
VOCABULARY = 4000
BLOCK = 128
# Plain words in place of special tokens, whose embeddings pretraining does not reach. The loss counts answers.
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'user' %}Question: {{ message.content }}\n"
    "{% else %}Answer:{% generation %} {{ message.content }}{{ eos_token }}{% endgeneration %}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}Answer:{% endif %}"
)
ADAPTERS = {"method": "lora", "r": 16, "lora_alpha": 32, "target_modules": "all-linear"}
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 160,
    "intermediate_size": 448,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


def parser(documentation):
    """The parser of the arguments that the examples on manual pages share; `documentation` is that of the example."""
    parser = argparse.ArgumentParser(description=documentation.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--manuals", required=True, type=Path, nargs="+", help="folders of unpacked packages")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--pretraining-epochs", type=float, default=2)
    parser.add_argument("--chat-epochs", type=float, default=3)
    return parser


def split(pages):
    """Pages to train on, and pages to evaluate."""
    train = [page for page in pages if not rows.is_held_out(page.name, EVALUATED)]
    return train, [page for page in pages if rows.is_held_out(page.name, EVALUATED)]


def question(page):
    return {"role": "user", "content": f"What is {page.name}?"}


def answer(page):
    return {"role": "assistant", "content": page.description}


def text(page):
    """The text that the model is pretrained on: the page's beginning, with its first lines."""
    body = "\n".join(page.paragraphs)[:CHARACTERS_MAX]
    return f"{', '.join(page.names)} - {page.description}\n{body}\n{small_models.END}"


def prepare(scratch, pages):
    """Writes the folder of the model, and its texts."""
    texts = [text(page) for page in pages]
    rows.write(scratch / "pages.jsonl", ({"text": text} for text in texts))
    model = scratch / "random"
    return small_models.write(model, MODEL, texts, VOCABULARY, ends_texts=False, chat_template=TEMPLATE)


def pretraining(options, scratch):
    """The job that writes the model to the folder `pretrained`."""
    return {
        "name": "pages",
        "model": {"name_or_path": str(scratch / "random"), "task": "causal-lm", "from_config": True},
        "data": {"train": str(scratch / "pages.jsonl"), "block_size": BLOCK},
        "train": {
            "num_train_epochs": options.pretraining_epochs,
            "per_device_train_batch_size": 16 // options.cores,
            "learning_rate": 3e-3,
            "warmup_steps": 0.05,
            "lr_scheduler_type": "cosine",
            "weight_decay": 0.01,
            "logging_steps": 100,
            "save_strategy": "no",
        },
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(scratch / "pretrained"),
    }


def write_conversations(scratch, train, evaluated):
    for name, pages in (("train", train), ("validation", evaluated)):
        conversations = ({"messages": [question(page), answer(page)]} for page in pages)
        rows.write(scratch / f"{name}.jsonl", conversations)


def conversations(options, scratch, adapters=False):
    """The job that trains the pretrained model, or adapters of it, on conversations, and writes it to the folder `chat`."""
    return {
        "name": "chat",
        "model": {"name_or_path": str(scratch / "pretrained"), "task": "sft"},
        "data": {
            "train": str(scratch / "train.jsonl"),
            "validation": str(scratch / "validation.jsonl"),
            "max_length": BLOCK,
            "assistant_only_loss": True,
            "packing": True,
        },
        "train": {
            "num_train_epochs": options.chat_epochs,
            "per_device_train_batch_size": 8 // options.cores,
            "per_device_eval_batch_size": 8,
            "learning_rate": 3e-3 if adapters else 5e-4,
            "warmup_steps": 0.05,
            "lr_scheduler_type": "cosine",
            "logging_steps": 50,
            "eval_strategy": "epoch",
            "eval_on_start": True,
            "save_strategy": "no",
        },
        "peft": ADAPTERS if adapters else {},
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(scratch / "chat"),
    }
