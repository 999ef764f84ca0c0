"""Small models of every family with random weights, and tokenizers for them."""

import sys
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

SCRIPTS = Path(__file__).parents[2]
sys.path += [str(SCRIPTS / "peers" / "habits"), str(SCRIPTS / "peers")]

import random_model
from folder import word_pieces, write_json

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", "<|im_start|>", "<|im_end|>"]
PAIRS = [("t", "h"), ("th", "e"), ("a", "n"), ("i", "n"), ("o", "n"), ("e", "r"), ("o", "w"), ("Ġ", "the"), ("r", "e")]
# The kinds of models that these tasks train; others have their own.
KINDS = dict.fromkeys(["sft", "dpo", "orpo", "cpo", "kto"], "causal-lm")
KINDS |= dict.fromkeys(["reward", "reranker"], "sequence-classification")
# Tasks whose rows may be long.
LONG = ("causal-lm", "sft", "dpo", "orpo", "cpo", "kto", "reward")
ENCODERS = ("bert", "distilbert", "roberta", "xlm-roberta")
# Attention heads of 8, as the widths of the model's parts.
SIZES = {"hidden": 16, "layers": 2, "heads": 2, "inner": 32}
TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.role == 'assistant' %}{% generation %}{{- message.content + '<|im_end|>' }}{% endgeneration %}"
    "{%- else %}{{- message.content + '<|im_end|>' }}{%- endif %}{{- '\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


def write(folder, spec, task, seed=0):
    """Writes a model folder. `spec` has `family`, and optionally `config`, `tokenizer`, `template` and `labels`."""
    folder.mkdir(parents=True)
    family = spec["family"]
    if family not in random_model.IMAGES:
        write_tokenizer(folder, family, spec)
    random_model.TINY.update(SIZES)
    random_model.POSITIONS = 512 if task in LONG else 64
    made = config(folder, family, task, spec)
    transformers.set_seed(seed)
    auto = random_model.AUTO[KINDS.get(task, task)]
    model = auto.from_config(made)
    if spec.get("without"):
        # As a pretrained body, whose head is new.
        body = getattr(model, model.base_model_prefix)
        body.save_pretrained(folder)
    else:
        model.save_pretrained(folder)
    if "dtype" in spec:
        model.to(getattr(torch, spec["dtype"])).save_pretrained(folder)
    if "adapter" in spec:
        write_adapter(folder.parent / "adapter", model, spec["adapter"])
    if family in random_model.IMAGES:
        size = {"height": made.image_size, "width": made.image_size}
        name = random_model.IMAGES[family].__name__.replace("Config", "ImageProcessor")
        keys = {"image_processor_type": name, "size": size} | ({"do_center_crop": False} if family == "deit" else {})
        write_json(folder / "preprocessor_config.json", keys | spec.get("processor", {}))


def write_adapter(folder, model, options):
    """Adapters of PEFT that differ from the model, as those of an earlier run."""
    import peft

    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **options))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name or "trainable_tokens_delta" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    adapted.save_pretrained(folder)


def config(folder, family, task, spec):
    labels = spec.get("labels", {"question-answering": 2, "reward": 1}.get(task, 3))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder) if family not in random_model.IMAGES else None
    if tokenizer is None:
        tokenizer = type("None", (), {"pad_token_id": None, "__len__": lambda self: 0})()
    usual = random_model.config(family, task, tokenizer).to_dict()
    # Large enough for losses to tell one model from another.
    usual |= {name: 0.1 for name in ["initializer_range", "init_std"] if name in usual}
    # These follow from the number of layers.
    for name in ["layer_types", "no_rope_layers"]:
        usual.pop(name, None)
    made = transformers.CONFIG_MAPPING[usual["model_type"]].from_dict({**usual, **spec.get("config", {})})
    made.num_labels = labels
    return made


def write_tokenizer(folder, family, spec):
    if family in ("bert", "distilbert"):
        tokenizer = word_pieces()
        names = {
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        }
        kind = "BertTokenizer" if family == "bert" else "DistilBertTokenizer"
    else:
        tokenizer, kind = byte_pairs(family), "PreTrainedTokenizerFast"
        names = dict(pad_token="<pad>", bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>")
        names |= dict(unk_token="<unk>", mask_token="<mask>")
    inputs = {} if family == "bert" else {"model_input_names": ["input_ids", "attention_mask"]}
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": kind, "model_max_length": 64, **names, **inputs, **spec.get("tokenizer", {})}
    write_json(folder / "tokenizer_config.json", {key: value for key, value in settings.items() if value is not None})
    if template := spec.get("template", TEMPLATE if family not in ENCODERS else ""):
        (folder / "chat_template.jinja").write_text(template)


def byte_pairs(family):
    """Bytes and a few merges; encoders and encoder-decoders mark the ends of texts."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = SPECIAL + alphabet + [one + other for one, other in PAIRS]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, PAIRS))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    ends = [("<s>", vocabulary["<s>"]), ("</s>", vocabulary["</s>"])]
    if family in ("roberta", "xlm-roberta", "bart"):
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
        )
    elif family in random_model.SEQ2SEQ:
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=ends)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer
