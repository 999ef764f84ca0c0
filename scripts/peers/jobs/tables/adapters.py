"""Jobs as users of PEFT run them: options of LoRA, modules that are trained in full, and added tokens."""

import texts

from tables.base import ACCUMULATED, classes, of, sft

TALKS = texts.talks(14)
RATE = {"learning_rate": 1e-2}
BOTH = ["q_proj", "v_proj"]


def lora(family="llama", train=None, data=None, model=None, spec=None, refusal="", **options):
    return sft(
        TALKS, family=family, peft={"method": "lora", **options}, train={**RATE, **(train or {})}, data=data or {},
        model=model or {}, spec=spec, more={"refusal": refusal},
    )  # fmt: skip


CASES = {
    "default": lora(),
    "default-of-gpt2": lora("gpt2"),
    "default-of-qwen3": lora("qwen3"),
    "default-of-gemma": lora("gemma"),
    "default-of-olmo2": lora("olmo2", refusal="olmo2 models have no default"),
    "all-linear": lora(r=4, lora_alpha=16, target_modules="all-linear"),
    "all-linear-of-gpt2": lora("gpt2", target_modules="all-linear"),
    "all-linear-of-phi3": lora("phi3", target_modules="all-linear"),
    "rslora": lora(r=16, use_rslora=True, target_modules=BOTH),
    "dora": lora(use_dora=True, target_modules=["up_proj", "o_proj"]),
    "dora-of-gpt2": lora("gpt2", use_dora=True),
    "biases": lora("qwen2", bias="all"),
    "biases-of-adapters": lora("gpt2", bias="lora_only"),
    "one-layer": lora(target_modules=BOTH, layers_to_transform=1),
    "layers": lora(target_modules=BOTH, layers_to_transform=[0, 1]),
    "head-in-full": lora(modules_to_save=["lm_head"]),
    "head-and-embeddings-in-full": lora(modules_to_save=["lm_head", "embed_tokens"]),
    "norms-in-full": lora(modules_to_save=["input_layernorm"]),
    "embeddings-of-gpt2-in-full": lora("gpt2", modules_to_save=["wte"], refusal="tie_word_embeddings"),
    "of-embeddings": lora(target_modules=["q_proj", "embed_tokens"], refusal="embed_tokens is not a linear layer"),
    "of-the-head": of(
        "causal-lm",
        texts.plain(30),
        "llama",
        data={"block_size": 16},
        train=RATE,
        peft={"method": "lora", "target_modules": ["q_proj", "lm_head"]},
    ),
    "by-full-name": lora(target_modules=["model.layers.0.self_attn.q_proj", "down_proj"]),
    "alpha-in-between": lora(r=3, lora_alpha=7.5),
    "accumulated": lora(train=ACCUMULATED),
    "packed": lora(data={"packing": True, "max_length": 64}),
    "weight-decay": lora(train={"weight_decay": 0.2}),
    "saved": lora(train={"save_strategy": "steps", "save_steps": 2, "save_total_limit": 1}),
    "tokens-with-embeddings": lora(
        model={"add_tokens": ["<tool>", "</tool>"]}, modules_to_save=["embed_tokens", "lm_head"]
    ),
    "of-classes": classes(peft={"method": "lora", "r": 4}, train=RATE),
    "of-classes-with-a-new-head": classes(spec={"without": True}, peft={"method": "lora"}, train=RATE),
    "of-classes-of-llama": classes(family="llama", peft={"method": "lora", "target_modules": "all-linear"}, train=RATE),
    "of-classes-of-distilbert": classes(
        family="distilbert", peft={"method": "lora", "target_modules": ["q_lin"]}, train=RATE
    ),
    "of-words": of(
        "token-classification", texts.tagged(18), "bert", model={"num_labels": 3}, peft={"method": "lora"}, train=RATE
    ),
    # PEFT drops the segments of questions, which RoBERTa has none of.
    "of-answers": of(
        "question-answering",
        texts.questions(18),
        "roberta",
        data={"max_length": 60, "doc_stride": 4},
        peft={"method": "lora"},
        train=RATE,
    ),
    "of-masks": of(
        "masked-lm",
        texts.lines(20),
        "roberta",
        peft={"method": "lora"},
        train=RATE,
        data={"line_by_line": True, "whole_word_mask": True, "mlm_probability": 1.0},
    ),
    "of-blocks": of(
        "causal-lm", texts.plain(30), "llama", data={"block_size": 16}, peft={"method": "lora"}, train=RATE
    ),
    "added-tokens": sft(TALKS, model={"add_tokens": ["<tool>", " cat"]}, more={"limit": 1e-2, "first_limit": 1e-2}),
    "added-tokens-padded": sft(
        TALKS,
        model={"add_tokens": ["<tool>"], "pad_vocab_to_multiple_of": 64},
        more={"limit": 1e-2, "first_limit": 1e-2},
    ),
    "added-special-tokens": sft(
        TALKS,
        model={"add_special_tokens": {"pad_token": "<fill>", "additional_special_tokens": ["<|tool|>"]}},
        more={"limit": 1e-2, "first_limit": 1e-2},
    ),
}


def continued(family="llama", refusal="", train=None, **options):
    """Adapters of PEFT that are trained further."""
    peft = {"method": "lora", "adapter_name_or_path": "adapter"}
    return sft(
        TALKS, family=family, spec={"adapter": options}, peft=peft, train={**RATE, **(train or {})},
        more={"refusal": refusal},
    )  # fmt: skip


SAVED = {**RATE, "max_steps": 6, "save_strategy": "steps", "save_steps": 2}
CASES |= {
    "continued": continued(),
    "continued-dora": continued(use_dora=True, target_modules="all-linear"),
    "continued-ranks-by-module": continued(
        refusal="alpha_pattern", target_modules=BOTH, rank_pattern={"q_proj": 2}, alpha_pattern={"v_proj": 32}
    ),
    "continued-ranks-by-layer": continued(
        refusal="rank_pattern", target_modules=BOTH, rank_pattern={"layers.1.self_attn.q_proj": 3}
    ),
    "continued-without-some": continued(
        refusal="exclude_modules", target_modules="all-linear", exclude_modules=["up_proj", "gate_proj"]
    ),
    "continued-by-expression": continued(refusal="target_modules", target_modules=r".*layers\.0\.mlp\.(up|down)_proj"),
    "continued-gaussian": continued(init_lora_weights="gaussian"),
    "continued-biases-of-adapters": continued(refusal="lora_bias", target_modules=BOTH, lora_bias=True),
    "continued-tokens": continued(trainable_token_indices=[5, 6]),
    "continued-layers": continued(
        refusal="layers_pattern", target_modules=BOTH, layers_to_transform=[1], layers_pattern="layers"
    ),
    "continued-of-gpt2": continued("gpt2", fan_in_fan_out=True),
    "continued-head-in-full": continued(modules_to_save=["lm_head"]),
    "tied-head-in-full": lora("gpt2", modules_to_save=["lm_head"], refusal="is also another parameter of the model"),
    "tied-embeddings-in-full": lora("gemma", modules_to_save=["embed_tokens"], refusal="tie_word_embeddings"),
    "tied-both-in-full": lora(
        "qwen2",
        spec={"config": {"tie_word_embeddings": True}},
        refusal="tie_word_embeddings",
        modules_to_save=["embed_tokens", "lm_head"],
    ),
    "resumed": sft(TALKS, peft={"method": "lora"}, train=SAVED, more={"resume": 2}),
    "best": sft(
        TALKS,
        peft={"method": "lora"},
        evaluated=texts.talks(6, 91),
        train={
            **SAVED,
            "eval_strategy": "steps",
            "eval_steps": 2,
            "load_best_model_at_end": True,
            "save_total_limit": 1,
        },
    ),
}
