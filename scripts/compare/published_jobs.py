"""Small models and data for jobs that `traind convert` makes of published files, and the figures of such a job.

A model's layers add nothing to its embeddings, so that its loss on a target depends on the token before it alone: the loss
of a step says which rows have which tokens and which of them are targets.
"""

import json
import math

import numpy as np
from tokenizers import AddedToken, processors

import service  # found by published
import small_models

TEXTS = [
    "Name three primary colours and say where each of them is found.",
    "Describe the movie in few words: it was long, slow and rather dull.",
    "The words of a sentence are counted one by one, and the last is left.",
    "How many letters are in the word café, and what do they sound like?",
    "An answer of one word",
    "It rained for a week. Then the sun came out, and everybody went to the lake to swim and to row.",
]
SPECIAL = [
    "<s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|user|>", "<|end|>",
    "<|assistant|>", "<|system|>", "<|end_of_text|>", "<|endoftext|>", "<|finetune_right_pad_id|>", "<unk>",
]  # fmt: skip
BOS, BOS_TOKEN = 2, "<s>"
ROWS = 61
HIDDEN, HEADS, HEAD_SIZE, INNER = 32, 4, 8, 48
EPSILON = 1e-6
# The Trainer's default.
LEARNING_RATE = 5e-5
# The beginning of a model's name, with its kind.
KINDS = [
    ("qwen3", "qwen3"), ("qwen2", "qwen2"), ("mistral", "mistral"), ("phi-3", "phi3"), ("llama", "llama"),
    ("smollm2", "llama"), ("open_llama", "llama"), ("orpheus", "llama"), ("skywork-reward-v2-qwen3", "qwen3"),
]  # fmt: skip
# Kinds whose tokenizers begin texts with a token.
BEGINS = ("llama", "mistral")


def kind_of(name):
    """The kind of a model of the hub; none for a kind that traind lacks."""
    base = name.lower().rpartition("/")[2].removeprefix("meta-")
    return next((kind for start, kind in KINDS if base.startswith(start)), None)


def write_model(folder, kind, tokens):
    """Writes the model, whose tokenizer knows `tokens`; returns the tokenizer, embeddings and head."""
    folder.mkdir(parents=True)
    tokenizer = small_models.train_tokenizer(TEXTS, 320, ends_texts=False)
    # In the order of their ids, of which BOS is one.
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in dict.fromkeys([*SPECIAL, *tokens])])
    filler = -tokenizer.get_vocab_size() % 64
    tokenizer.add_tokens([f"<filler {index}>" for index in range(filler)])
    if kind in BEGINS:
        begin = tokenizer.token_to_id(BOS_TOKEN)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BOS_TOKEN} $A", special_tokens=[(BOS_TOKEN, begin)]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    keys = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": small_models.PAD, "eos_token": small_models.END}
    (folder / "tokenizer_config.json").write_text(json.dumps(keys | {"bos_token": BOS_TOKEN}))
    config = config_of(kind, tokenizer)
    (folder / "config.json").write_text(json.dumps(config))
    weights = weights_of(kind, config["vocab_size"])
    write_weights(folder / "model.safetensors", weights)
    return tokenizer, weights["model.embed_tokens.weight"], weights["lm_head.weight"]


def config_of(kind, tokenizer):
    return {
        "model_type": kind,
        "architectures": [{"phi3": "Phi3ForCausalLM"}.get(kind, f"{kind.capitalize()}ForCausalLM")],
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_SIZE,
        "max_position_embeddings": 4096,
        "rms_norm_eps": EPSILON,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "pad_token_id": small_models.PAD_ID,
        "eos_token_id": small_models.END_ID,
        "bos_token_id": tokenizer.token_to_id(BOS_TOKEN),
    }


def weights_of(kind, vocabulary):
    random = np.random.default_rng(1)
    draw = lambda *shape: random.normal(scale=0.5, size=shape).astype(np.float32)  # noqa: E731
    ones = lambda size: np.ones(size, np.float32)  # noqa: E731
    heads = HEADS * HEAD_SIZE
    layer = {"input_layernorm.weight": ones(HIDDEN), "post_attention_layernorm.weight": ones(HIDDEN)}
    layer |= {"self_attn.o_proj.weight": np.zeros((HIDDEN, heads), np.float32)}
    layer |= {"mlp.down_proj.weight": np.zeros((HIDDEN, INNER), np.float32)}
    if kind == "phi3":
        layer |= {
            "self_attn.qkv_proj.weight": draw(3 * heads, HIDDEN),
            "mlp.gate_up_proj.weight": draw(2 * INNER, HIDDEN),
        }
    else:
        layer |= {f"self_attn.{name}_proj.weight": draw(heads, HIDDEN) for name in "qkv"}
        layer |= {f"mlp.{name}_proj.weight": draw(INNER, HIDDEN) for name in ("gate", "up")}
    if kind == "qwen2":
        layer |= {f"self_attn.{name}_proj.bias": draw(heads) for name in "qkv"}
    if kind == "qwen3":
        layer |= {f"self_attn.{name}_norm.weight": ones(HEAD_SIZE) for name in "qk"}
    weights = {f"model.layers.0.{name}": value for name, value in layer.items()}
    return weights | {
        "model.embed_tokens.weight": draw(vocabulary, HIDDEN),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": draw(vocabulary, HIDDEN),
    }


def write_weights(path, weights):
    from safetensors.numpy import save_file

    save_file(weights, path, metadata={"format": "pt"})


def rows_of(job, seed):
    """Rows of one data set in every layout of the examples, of which each reads its own columns."""
    random = np.random.default_rng(seed)
    text = lambda most: " ".join(TEXTS[at] for at in random.integers(len(TEXTS), size=random.integers(1, most)))  # noqa: E731
    return [row(index, text) for index in range(ROWS)]


def row(index, text):
    question, answer, other = text(3), text(4), text(3)
    turns = [("user", question), ("assistant", answer)] if index % 3 else [
        ("user", question), ("assistant", other), ("user", text(2)), ("assistant", answer)
    ]  # fmt: skip
    names = {"user": "human", "assistant": "gpt"}
    return {
        "instruction": question,
        "input": other if index % 2 else "",
        "output": answer,
        "text": f"{question} {answer}",
        "messages": [{"role": role, "content": content} for role, content in turns],
        "conversations": [{"from": names[role], "value": content} for role, content in turns],
        "conversation": [{"role": "user", "content": question}],
    }


def row_for(job, row, index):
    """A row as the job's task reads it."""
    task, layout = job["model"]["task"], job["data"].get("format")
    if task == "kto":
        return row | {"label": index % 3 != 1}
    if task not in ("dpo", "orpo", "cpo", "reward"):
        return row
    if layout == "alpaca":
        return {"system": "", "input": row["instruction"], "chosen": row["output"], "rejected": row["text"]}
    if layout == "sharegpt":
        row = {name: row[name] for name in ["instruction", "output", "text"]}
    return pair(row)


def pair(row):
    """The same with a chosen and a rejected answer, as either tool has them."""
    question = [{"from": "human", "value": row["instruction"]}]
    chosen, rejected = row["output"], row["text"]
    if "conversation" in row:
        own = {
            "chosen": {"role": "assistant", "content": chosen},
            "rejected": {"role": "assistant", "content": rejected},
        }
        return {"conversation": row["conversation"], **own}
    return {
        "conversations": question,
        "chosen": {"from": "gpt", "value": chosen},
        "rejected": {"from": "gpt", "value": rejected},
    }


def losses(embeddings, head, row):
    """Minus the log probability of each target of a row."""
    hidden = embeddings[row.tokens[:-1]].astype(np.float64)
    hidden /= np.sqrt((hidden**2).mean(axis=1, keepdims=True) + EPSILON)
    logits = hidden @ head.astype(np.float64).T
    top = logits.max(axis=1, keepdims=True)
    normal = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
    targets = row.targets[1:]
    return [float(normal[at] - logits[at, target]) for at, target in enumerate(targets) if target >= 0]


def mean(values):
    return math.fsum(values) / max(len(values), 1)


def warmup(peak, rates):
    """Steps of warmup, after which the rate is at its peak."""
    return next((index for index, rate in enumerate(rates) if rate >= peak * (1 - 1e-9)), len(rates))


class Figures:
    """The outcome of a job: rows of its first step, their loss, and the run's numbers."""

    def __init__(self, daemon, job):
        self.run = daemon.run(job)
        events = self.run.of_kind("step")
        steps = [step for _, step in events]
        prepared = {data.split: data for _, data in self.run.of_kind("data_prepared")}
        self.steps = steps[0].max_steps
        self.loss = steps[0].loss
        self.metrics = dict(steps[0].metrics)
        self.rows = prepared["train"].rows
        self.tokens = prepared["train"].tokens
        self.longest = prepared["train"].lengths.max
        self.warmup = warmup(job["train"].get("learning_rate", LEARNING_RATE), [step.learning_rate for step in steps])
        request = service.jobs.GetSamplesRequest(job_id=self.run.job.id, step=1)
        samples = daemon.stub.GetSamples(request)
        self.samples = [(samples.files[sample.file], sample.row) for sample in samples.samples]
