"""Keys of config.json."""

from case import case
from cases.bases import CAUSAL, GPT2, PAIRS, QUESTIONS, TAGS, TEXTS
from features import as_they_are


@case
def activation_functions():
    names = ["gelu_fast", "quick_gelu", "gelu_10", "gelu_accurate", "mish", "relu2", "relu6", "leaky_relu", "sigmoid"]
    names += ["linear", "laplace", "hardswish", "gelu_python_tanh", "sqrtsoftplus"]
    return {name.replace("_", "-"): {**TEXTS, "config": {"hidden_act": name}} for name in names}


@case
def heads_of_gpt2():
    of = GPT2["tokenizer"]
    config = {**GPT2["config"], "classifier_dropout": 0.0}
    without = {**GPT2["config"], "pad_token_id": "absent"}
    none = {**of, "pad_token": None}
    one = {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 1, "num_train_epochs": 1}
    end = {**of, "pad_token": "[SEP]"}
    segments = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return {
        "words": {**TAGS, **GPT2, "config": config},
        "questions": {**QUESTIONS, **GPT2},
        "causal": {**CAUSAL, **GPT2, "config": {"n_positions": 32}, "fixture": "gpt2-causal-lm"},
        "pad-token-of-the-tokenizer": {**TEXTS, **GPT2, "config": without},
        "another-pad-token": {**TEXTS, **GPT2, "tokenizer": end},
        "without-pad-token": {
            **TEXTS,
            **GPT2,
            "config": without,
            "tokenizer": none,
            "train": one,
            "collator": as_they_are,
        },
        "pad-token-of-llama": {
            **TEXTS,
            "fixture": "llama-sequence-classification",
            "config": {"pad_token_id": "absent", "max_position_embeddings": 32},
            "tokenizer": of,
        },
        "segments-as-tokens": {**PAIRS, **GPT2, "tokenizer": {**of, **segments}},
    }


@case
def keys_of_config():
    quantized = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}
    remote = {"auto_map": {"AutoModelForSequenceClassification": "modeling_own.OwnModel"}}
    return {
        "without-architectures": {**TEXTS, "config": {"architectures": "absent"}},
        "without-type": {
            **TEXTS,
            "config": {"model_type": "absent"},
            "weights": "fixture",
            "trained": False,
            "refusal": "model_type",
        },
        "remote-code": {**TEXTS, "config": remote, "weights": "fixture"},
        "quantized": {
            **TEXTS,
            "config": quantized,
            "weights": "fixture",
            "trained": False,
            "refusal": "quantization_config",
        },
        "old-keys": {
            **TEXTS,
            "config": {
                "gradient_checkpointing": True,
                "output_past": True,
                "position_embedding_type": "absolute",
                "pruned_heads": {},
            },
            "weights": "fixture",
        },
        "num-labels-and-names": {
            **TEXTS,
            "config": {"num_labels": 3, "id2label": "absent", "label2id": "absent"},
            "model": {},
            "weights": "fixture",
        },
        "relative-positions": {
            **TEXTS,
            "config": {"position_embedding_type": "relative_key"},
            "weights": "fixture",
            "refusal": "position_embedding_type",
        },
        "one-segment": {**TEXTS, "config": {"type_vocab_size": 1}},
        "one-segment-of-pairs": {
            **PAIRS,
            "config": {"type_vocab_size": 1},
            "trained": False,
            "refusal": "gives second texts segment 1",
        },
        "dropout-of-the-head": {**TEXTS, "config": {"classifier_dropout": 0.0, "hidden_dropout_prob": 0.0}},
        "problem-type": {**TEXTS, "config": {"problem_type": "single_label_classification"}},
    }
