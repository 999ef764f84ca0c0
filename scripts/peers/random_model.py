"""Saves a model of a family for a task with random weights, and a tokenizer with it.

All families get the same tokenizer: a comparison of arithmetic does not mind which. A tiny model, the default, has no
dropout. Those with a SHAPE have the family's own dropout and, as pretrained models, no head: a small one has the shape of
MiniLM (6 layers of 384; DistilBERT has 3), and the rest that of the model whose name they have.

usage: random_model.py FAMILY TASK TOKENIZER_DIR OUT_DIR [SHAPE|layers=N|MAX_SHARD_SIZE]
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import transformers

import pictures

AUTO = {
    "sequence-classification": transformers.AutoModelForSequenceClassification,
    "token-classification": transformers.AutoModelForTokenClassification,
    "question-answering": transformers.AutoModelForQuestionAnswering,
    "masked-lm": transformers.AutoModelForMaskedLM,
    "causal-lm": transformers.AutoModelForCausalLM,
    "seq2seq-lm": transformers.AutoModelForSeq2SeqLM,
    "image-classification": transformers.AutoModelForImageClassification,
    "embedding": transformers.AutoModel,
}
POSITIONS = 128


TINY = {"hidden": 64, "layers": 2, "heads": 4, "inner": 128}
SHAPES = {
    "tiny": TINY,
    "small": {"hidden": 384, "layers": 6, "heads": 12, "inner": 1536},
    "bert-base": {"hidden": 768, "layers": 12, "heads": 12, "inner": 3072, "positions": 512},
    "bert-large": {"hidden": 1024, "layers": 24, "heads": 16, "inner": 4096, "positions": 512},
    "gpt2": {"hidden": 768, "layers": 12, "heads": 12, "inner": 3072, "positions": 1024, "vocabulary": 50257},
    "llama-25m": {"hidden": 384, "layers": 8, "heads": 12, "inner": 1024, "positions": 512, "tied": True},
    "llama-1b": {"hidden": 2048, "layers": 16, "heads": 32, "inner": 8192, "positions": 1024, "dtype": "bfloat16"},
    "t5-small": {"hidden": 512, "layers": 6, "heads": 8, "inner": 2048, "vocabulary": 32128, "activation": "relu"},
    "vit-s": {"hidden": 384, "layers": 12, "heads": 6, "inner": 1536, "image": 224, "patch": 16},
}
DROPOUT = {
    "bert": ["hidden_dropout_prob", "attention_probs_dropout_prob"],
    "distilbert": ["dropout", "attention_dropout", "seq_classif_dropout", "qa_dropout"],
    "gpt2": ["resid_pdrop", "embd_pdrop", "attn_pdrop"],
    "modernbert": ["embedding_dropout", "attention_dropout", "mlp_dropout", "classifier_dropout"],
    "albert": ["hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob"],
}
# These have the sizes of decoders, and no dropout unless asked for.
DECODERS = {
    "eurobert": transformers.EuroBertConfig,
    "llama": transformers.LlamaConfig,
    "mistral": transformers.MistralConfig,
    "qwen2": transformers.Qwen2Config,
    "qwen3": transformers.Qwen3Config,
    "gemma": transformers.GemmaConfig,
    "phi3": transformers.Phi3Config,
    "gemma2": transformers.Gemma2Config,
    "gemma3_text": transformers.Gemma3TextConfig,
    "smollm3": transformers.SmolLM3Config,
    "granite": transformers.GraniteConfig,
    "olmo2": transformers.Olmo2Config,
    "olmo3": transformers.Olmo3Config,
}


STACKS = ["encoder", "decoder"]
SEQ2SEQ = {
    "t5": transformers.T5Config,
    "mt5": transformers.MT5Config,
    "bart": transformers.BartConfig,
    "mbart": transformers.MBartConfig,
}


IMAGES = {
    "vit": transformers.ViTConfig,
    "deit": transformers.DeiTConfig,
}
PATCH = 8


def config(family, task, tokenizer, shape=None):
    """With a name of SHAPES, a model of that shape with dropout."""
    small = shape is not None
    size = SHAPES.get(shape, TINY)
    labels = 2 if task == "question-answering" else 3
    vocabulary, positions_max = size.get("vocabulary", len(tokenizer)), size.get("positions", POSITIONS)
    common = {"vocab_size": vocabulary, "pad_token_id": tokenizer.pad_token_id, "num_labels": labels}
    if family in IMAGES:
        # DeiT's Auto class has a choice of two.
        architecture = IMAGES[family].__name__.replace("Config", "ForImageClassification")
        return IMAGES[family](
            architectures=[architecture], hidden_size=size["hidden"], num_hidden_layers=size["layers"],
            num_attention_heads=size["heads"], intermediate_size=size["inner"],
            image_size=size.get("image", pictures.SIZE), patch_size=size.get("patch", PATCH), num_labels=labels,
        )  # fmt: skip
    if family in DECODERS:
        common |= {"tie_word_embeddings": True} if "tied" in size else {}
        return DECODERS[family](
            hidden_size=size["hidden"], num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
            num_key_value_heads=size["heads"] // 2, intermediate_size=size["inner"], max_position_embeddings=positions_max,
            bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id, **common,
        )  # fmt: skip
    if family in SEQ2SEQ:
        return seq2seq_config(family, size, small, tokenizer, common)
    if not small:
        common |= dict.fromkeys(DROPOUT.get(family, DROPOUT["bert"]), 0.0)
    if family == "distilbert":
        layers = size["layers"] // 2 if small else size["layers"]
        return transformers.DistilBertConfig(
            dim=size["hidden"], n_layers=layers, n_heads=size["heads"], hidden_dim=size["inner"],
            max_position_embeddings=positions_max, **common,
        )  # fmt: skip
    if family == "gpt2":
        return transformers.GPT2Config(
            n_embd=size["hidden"], n_layer=size["layers"], n_head=size["heads"], n_positions=positions_max,
            bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id, **common,
        )  # fmt: skip
    if family == "modernbert":
        # A window of 16 positions, in every second layer.
        return transformers.ModernBertConfig(
            hidden_size=size["hidden"], num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
            intermediate_size=size["inner"], max_position_embeddings=positions_max, local_attention=16,
            global_attn_every_n_layers=2, **special_tokens(tokenizer), **common,
        )  # fmt: skip
    kind, segments, positions = ENCODERS[family]
    return kind(
        hidden_size=size["hidden"], num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
        intermediate_size=size["inner"], type_vocab_size=segments,
        max_position_embeddings=positions_max + positions(tokenizer), **common,
    )  # fmt: skip


def special_tokens(tokenizer):
    """The special tokens whose ids must be in the vocabulary."""
    first = {name: tokenizer.cls_token_id for name in ["bos_token_id", "cls_token_id"]}
    return first | {name: tokenizer.sep_token_id for name in ["eos_token_id", "sep_token_id"]}


def seq2seq_config(family, size, small, tokenizer, common):
    """T5 has the shape of its version 1.1 unless the size has another activation. Targets end with the separator, as all
    rows of this tokenizer."""
    common |= {"eos_token_id": tokenizer.sep_token_id, "decoder_start_token_id": tokenizer.pad_token_id}
    if family.endswith("t5"):
        return SEQ2SEQ[family](
            d_model=size["hidden"], d_kv=size["hidden"] // size["heads"], d_ff=size["inner"], num_heads=size["heads"],
            num_layers=size["layers"], feed_forward_proj=size.get("activation", "gated-gelu"),
            **common, **({} if small else {"dropout_rate": 0.0}),
        )  # fmt: skip
    layers = {f"{stack}_layers": size["layers"] for stack in STACKS}
    heads = {f"{stack}_attention_heads": size["heads"] for stack in STACKS}
    inner = {f"{stack}_ffn_dim": size["inner"] for stack in STACKS}
    return SEQ2SEQ[family](
        d_model=size["hidden"], max_position_embeddings=POSITIONS, bos_token_id=tokenizer.cls_token_id,
        forced_eos_token_id=None, **layers, **heads, **inner, **common, **({} if small else {"dropout": 0.0}),
    )  # fmt: skip


def write_image_processor(family, pixels, folder):
    """Its class needs a library of images, which these comparisons do without."""
    size = {"height": pixels, "width": pixels}
    name = IMAGES[family].__name__.replace("Config", "ImageProcessor")
    keys = {"image_processor_type": name, "size": size, "crop_size": size}
    (Path(folder) / "preprocessor_config.json").write_text(json.dumps(keys))


def behind_padding(tokenizer):
    """RoBERTa counts positions from the padding token's id plus one."""
    return tokenizer.pad_token_id + 1


DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 16,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}


def without_segments(kind):
    """The config class of a family whose tokens have no segments."""
    return lambda type_vocab_size, **keys: kind(**keys)


# The class, the number of segments, and the positions beyond a row's tokens.
ENCODERS = {
    "bert": (transformers.BertConfig, 2, lambda tokenizer: 0),
    "roberta": (transformers.RobertaConfig, 1, behind_padding),
    "xlm-roberta": (transformers.XLMRobertaConfig, 1, behind_padding),
    "xlm-roberta-xl": (transformers.XLMRobertaXLConfig, 1, behind_padding),
    "electra": (partial(transformers.ElectraConfig, embedding_size=32), 2, lambda tokenizer: 0),
    # Whatever the padding token, positions are counted from 2.
    "nomic_bert": (transformers.NomicBertConfig, 2, lambda tokenizer: 0),
    "gte": (transformers.GteConfig, 1, lambda tokenizer: 0),
    "jina_embeddings_v3": (transformers.JinaEmbeddingsV3Config, 1, lambda tokenizer: 0),
    "mpnet": (without_segments(transformers.MPNetConfig), 1, lambda tokenizer: 2),
    "albert": (partial(transformers.AlbertConfig, embedding_size=32), 2, lambda tokenizer: 0),
    # The settings of the third version, with fewer buckets.
    "deberta-v2": (partial(transformers.DebertaV2Config, **DEBERTA), 0, lambda tokenizer: 0),
}


# GPT-2 would take the numbers of segments for tokens.
WITH_SEGMENTS = ["bert", "electra", "albert", "nomic_bert"]


if __name__ == "__main__":
    family, task, source, out = sys.argv[1:5]
    inputs = ["input_ids", "attention_mask"] + (["token_type_ids"] if family in WITH_SEGMENTS else [])
    [shape] = [option for option in sys.argv[5:] if option in SHAPES] or [None]
    size = SHAPES.get(shape, TINY)
    length, dtype = size.get("positions", POSITIONS), size.get("dtype", "float32")
    names = {"model_input_names": inputs, "model_max_length": length}
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, **names)
    transformers.set_seed(42)
    files = {}
    for option in sys.argv[5:]:
        if option.startswith("layers="):
            TINY["layers"] = int(option.removeprefix("layers="))
        elif option != shape:
            files["max_shard_size"] = option
    auto = transformers.AutoModel if shape else AUTO[task]
    auto.from_config(config(family, task, tokenizer, shape), dtype=dtype).save_pretrained(out, **files)
    if family in IMAGES:
        write_image_processor(family, size.get("image", pictures.SIZE), out)
    else:
        tokenizer.save_pretrained(out)
