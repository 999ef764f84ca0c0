"""Jobs as users of TRL's SFTTrainer run them: rows, templates, masks, packing and sets of files."""

import copy

import datasets
import texts
from models import TEMPLATE

from tables.base import ACCUMULATED, sft

TALKS, PROMPTS, TEXTS = texts.talks(14), texts.prompted(14), texts.plain(18)
LONG = texts.talks(10, seed=21, turns=(3, 5))
PACKED = {"packing": True, "max_length": 64}
OURS = {"assistant_only_loss": True}
PLAIN = TEMPLATE.replace("{% generation %}", "").replace("{% endgeneration %}", "")
TOOLS = (
    "{%- if tools %}{{- '<|im_start|>tools\n' + (tools | tojson) + '<|im_end|>\n' }}{%- endif %}"
    "{%- if style is defined %}{{- style }}{%- endif %}" + TEMPLATE
)
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}


def with_tools(row, number):
    return {
        **row,
        "tools": [TOOL] if number % 2 else [],
        "chat_template_kwargs": {"style": "short" if number % 3 else ""},
    }


def unlike(rows, key):
    """Rows whose messages have a field that only some have."""
    rows = copy.deepcopy(rows)
    for number, row in enumerate(rows):
        row["messages"][-1][key] = "yes" if number % 2 else None
    return rows


def tokenized(rows, seed=5):
    """Tokens with masks of completions, as TRL keeps them."""
    made = []
    for number, row in enumerate(rows):
        ids = [7 + len(word) * 5 + number for word in row["text"].split()][:20] + [2]
        start = len(ids) // 2
        made.append({"input_ids": ids, "completion_mask": [0] * start + [1] * (len(ids) - start)})
    return made


def masked(rows):
    return [{"input_ids": row["input_ids"], "assistant_masks": row["completion_mask"]} for row in tokenized(rows)]


def labelled(rows):
    made = tokenized(rows)
    return [
        {
            "input_ids": row["input_ids"],
            "labels": [t if m else -100 for t, m in zip(row["input_ids"], row["completion_mask"], strict=True)],
        }
        for row in made
    ]


CASES = {
    "messages": sft(TALKS),
    "messages-evaluated": sft(TALKS, evaluated=texts.talks(7, 22), train={"eval_strategy": "steps", "eval_steps": 2}),
    "assistant-only": sft(TALKS, data=OURS),
    "assistant-only-truncated": sft(LONG, data={**OURS, "max_length": 40}),
    "messages-without-marks": sft(TALKS, spec={"template": PLAIN}),
    "truncated": sft(LONG, data={"max_length": 24}),
    "packed": sft(LONG + TALKS, data=PACKED),
    "packed-assistant-only": sft(LONG + TALKS, data={**PACKED, **OURS}),
    "packed-wrapped": sft(LONG + TALKS, data={**PACKED, "packing_strategy": "wrapped"}),
    "packed-not-evaluated": sft(LONG, data={**PACKED, "eval_packing": False}, evaluated=texts.talks(7, 22)),
    "packed-evaluated-alone": sft(LONG, data={"max_length": 64, "eval_packing": True}, evaluated=texts.talks(9, 23)),
    "packed-texts": sft(TEXTS, data=PACKED, family="gpt2"),
    "packed-prompts": sft(PROMPTS + texts.prompted(14, 24), data=PACKED, family="mistral"),
    "prompts": sft(PROMPTS),
    "prompts-in-full": sft(PROMPTS, data={"completion_only_loss": False}),
    "prompts-as-messages": sft(texts.prompted_talks(14)),
    "prompts-as-messages-in-full": sft(texts.prompted_talks(14), data={"completion_only_loss": False}),
    "texts": sft(TEXTS, family="gpt2"),
    "texts-named": sft([{"content": row["text"]} for row in TEXTS], data={"text": "content"}),
    "texts-with-other-columns": sft([{**row, "id": n, "meta": {"a": [n]}} for n, row in enumerate(TEXTS)]),
    "padded-to-a-multiple": sft(TALKS, data={"pad_to_multiple_of": 8}),
    "another-end": sft(PROMPTS, data={"eos_token": "<|im_end|>"}),
    "left-padding": sft(TALKS, spec={"tokenizer": {"padding_side": "left"}}),
    "pad-token-is-the-end": sft(PROMPTS, spec={"tokenizer": {"pad_token": "</s>"}}),
    "pad-token-missing": sft(PROMPTS, spec={"tokenizer": {"pad_token": None}}),
    "bos-from-the-template": sft(TALKS, spec={"template": "{{- bos_token }}" + TEMPLATE}),
    "tools": sft([with_tools(row, n) for n, row in enumerate(TALKS)], spec={"template": TOOLS}),
    "fields-of-some-messages": sft(unlike(TALKS, "note")),
    "accumulated": sft(TALKS, train=ACCUMULATED),
    "accumulated-prompts": sft(PROMPTS, train={**ACCUMULATED, "gradient_accumulation_steps": 3}),
    "accumulated-dropping-last": sft(texts.talks(15), train={**ACCUMULATED, "dataloader_drop_last": True}),
    "two-cores": sft(TALKS, resources={"cores": 2}, train={"per_device_train_batch_size": 2}),
    "completion-masks": sft(tokenized(TEXTS), data={"completion_only_loss": True}),
    "assistant-masks": sft(masked(TEXTS)),
    "token-labels": sft(labelled(TEXTS)),
    "empty-answers": sft(
        [*TALKS[:5], {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]}]
    ),
    "batch-of-one": sft(TALKS, train={"per_device_train_batch_size": 1}),
    "several-epochs": sft(texts.talks(6), train={"max_steps": 7}),
    "evaluated-by-epoch": sft(
        TALKS, evaluated=texts.talks(5, 25), train={"eval_strategy": "epoch", "num_train_epochs": 2, "max_steps": None}
    ),
}

FAMILIES = [
    "mistral",
    "qwen2",
    "qwen3",
    "gemma",
    "phi3",
    "gemma2",
    "gemma3_text",
    "smollm3",
    "granite",
    "olmo2",
    "olmo3",
    "gpt2",
]
CASES |= {
    f"of-{family.replace('_', '-')}": sft(TALKS, data={**OURS, "max_length": 64}, family=family) for family in FAMILIES
}


def sets(mixing, weights, read, **data):
    """Two files that are mixed."""
    files = {"a.jsonl": texts.plain(9, 31), "b.jsonl": texts.plain(14, 32)}
    train = [{"path": name, **({"weight": w} if w else {})} for name, w in zip(files, weights, strict=True)]
    data = {"train": train, "mixing": mixing, **data}

    def mixed(folder):
        one, other = (datasets.Dataset.from_list(rows) for rows in files.values())
        return {"train": read(one, other).to_list()}

    return sft(None, files=files, data=data, more={"read": mixed}, train={"data_seed": 7, "max_steps": 8})


def interleaved(strategy, weights=None):
    return lambda one, other: datasets.interleave_datasets(
        [one, other], probabilities=weights, seed=7, stopping_strategy=strategy
    )


CASES |= {
    "sets-concatenated": sets("concatenate", [0, 0], lambda one, other: datasets.concatenate_datasets([one, other])),
    "sets-in-turns": sets("first_exhausted", [0, 0], interleaved("first_exhausted")),
    "sets-in-turns-to-the-end": sets("all_exhausted", [0, 0], interleaved("all_exhausted")),
    "sets-drawn": sets("first_exhausted", [0.3, 0.7], interleaved("first_exhausted", [0.3, 0.7])),
    "sets-drawn-to-the-end": sets("all_exhausted", [0.8, 0.2], interleaved("all_exhausted", [0.8, 0.2])),
    "sets-limited": sets(
        "concatenate",
        [0, 0],
        lambda one, other: datasets.concatenate_datasets([one.select(range(5)), other.select(range(5))]),
        max_samples=5,
    ),
    "sets-drawn-once": sets(
        "all_exhausted_without_replacement", [0.5, 0.5], interleaved("all_exhausted_without_replacement", [0.5, 0.5])
    ),
}


def part(expression, choose):
    """A part of a file by its split."""
    rows = texts.plain(30, 33)
    return sft(
        None, files={"all.jsonl": rows}, data={"train": [{"path": "all.jsonl", "split": expression}]},
        more={"read": lambda folder: {"train": choose(rows)}},
    )  # fmt: skip


CASES |= {
    "split-in-percent": part("train[:50%]", lambda rows: rows[:15]),
    "split-of-the-end": part("train[-8:]", lambda rows: rows[-8:]),
    "split-between": part("train[4:17]", lambda rows: rows[4:17]),
    "split-summed": part("train[:10%]+train[80%:]", lambda rows: rows[:3] + rows[24:]),
    "split-rounded": part("train[33%:67%]", lambda rows: rows[10:20]),
}


def scaled(family="llama", **rope):
    return sft(TALKS, family=family, spec={"config": {"rope_parameters": {"rope_theta": 10000.0, **rope}}})


OF_LLAMA_3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
LONG_PROMPT = {"prompt": "cat " * 40, "completion": " dog"}
TWO_ANSWERS = [{"messages": [*row["messages"], {"role": "assistant", "content": "and more"}]} for row in TALKS]
CASES |= {
    "smoothed": sft(TALKS, train={"label_smoothing_factor": 0.1}),
    "smoothed-prompts": sft(PROMPTS, train={"label_smoothing_factor": 0.2, "gradient_accumulation_steps": 2}),
    "tokens-counted": sft(TALKS, train={"include_num_input_tokens_seen": "all"}),
    "tokens-counted-without-padding": sft(TALKS, train={"include_num_input_tokens_seen": "non_padding"}),
    "resumed-packed": sft(
        LONG + TALKS, data=PACKED, train={"max_steps": 6, "save_strategy": "steps", "save_steps": 2}, more={"resume": 4}
    ),
    "resumed-accumulated": sft(TALKS, train={**ACCUMULATED, "save_strategy": "epoch"}, more={"resume": 2}),
    "frozen-embeddings": sft(TALKS, train={"freeze": ["embed_tokens"]}),
    "weight-decay": sft(TALKS, train={"weight_decay": 0.5, "learning_rate": 1e-2}),
    "clipped": sft(TALKS, train={"max_grad_norm": 0.1}),
    "one-row": sft(TALKS[:1], train={"max_steps": 3}),
    "long-and-short": sft(
        texts.talks(4, 92, turns=(6, 8)) + texts.plain_talks(8), train={"per_device_train_batch_size": 6}
    ),
    "only-systems": sft(texts.talks(12, 93, system=1.0), data=OURS),
    "prompt-longer-than-the-row": sft([*PROMPTS, LONG_PROMPT], data={"max_length": 48}),
    "scaled-positions": scaled(rope_type="linear", factor=4.0),
    "scaled-positions-of-llama-3": scaled(rope_type="llama3", factor=8.0, **OF_LLAMA_3),
    "scaled-positions-of-yarn": scaled("qwen2", rope_type="yarn", factor=4.0, original_max_position_embeddings=128),
    "answers-in-parts": sft(TWO_ANSWERS, data=OURS),
}


def beyond(family="llama", **config):
    """Rows that are longer than the model's positions, which nothing but a table of them ends."""
    return sft(LONG, family=family, data={"max_length": 64}, spec={"config": {"max_position_embeddings": 12, **config}})


ROTARY = ["mistral", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "smollm3", "granite", "olmo2", "olmo3"]
CASES |= {f"beyond-the-positions-of-{family.replace('_', '-')}": beyond(family) for family in ["llama", *ROTARY]}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 8}
FACTORS = {"long_factor": [1.5, 2.0, 3.0, 4.0], "short_factor": [1.0, 1.1, 1.2, 1.3]}
LONG_ROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 8, **FACTORS}
CASES |= {
    "beyond-the-positions-of-yarn": beyond("qwen2", rope_parameters=YARN),
    "beyond-the-positions-of-longrope": beyond("phi3", rope_parameters=LONG_ROPE),
    "beyond-the-positions-packed": sft(
        LONG + TALKS, data=PACKED, family="qwen3", spec={"config": {"max_position_embeddings": 12}}
    ),
}
