"""Generates texts with transformers, for prompts that are the first words of texts.

Weights of random models are enlarged first, and saved so: otherwise all texts would be the same word, again and again.

usage: generate.py MODEL_DIR TEXTS.csv MAX_NEW_TOKENS OUT.json
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import torch
import transformers

import datafiles

PROMPTS = 200
ENLARGED = 4.0
ENDS_OF = 4
WAYS = {"greedy": 1, "4 beams": 4}


def load(folder):
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(ENLARGED)
    return model


def let_texts_end(model, tokenizer, prompts, length):
    """Lets a text end with any of the tokens that some texts have behind their first half."""
    texts = [generate(model, tokenizer, prompt, max_new_tokens=length) for prompt in prompts[:ENDS_OF]]
    model.generation_config.eos_token_id = sorted({token for tokens in texts for token in tokens[length // 2 :]})


def first_words(texts):
    """The beginnings of texts, with different numbers of words."""
    return [" ".join(text.split()[: 2 + index % 9]) for index, text in enumerate(texts[:PROMPTS])]


def generate(model, tokenizer, prompt, **settings):
    """The new tokens, up to the one that ends the text. Prompts are generated alone, so that nothing is padded."""
    inputs = tokenizer(prompt, return_tensors="pt")
    names = ["input_ids", "attention_mask"]
    inputs = {name: inputs[name] for name in names}
    tokens = model.generate(**inputs, do_sample=False, **settings)[0]
    start = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    tokens = tokens[start:].tolist()
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return tokens[: next((place for place, token in enumerate(tokens, 1) if token in ends), None)]


if __name__ == "__main__":
    # Threads only wait for each other in models as small as these.
    torch.set_num_threads(1)
    folder, texts, length, out = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    # As tokenizer.json has it: AutoTokenizer would put Qwen's own class in place of the folder's.
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    model = load(folder)
    prompts = first_words(datafiles.texts_and_labels(texts)[0])
    let_texts_end(model, tokenizer, prompts, length)
    model.save_pretrained(folder)
    found = {"prompts": prompts}
    for way, beams in WAYS.items():
        found[way] = [generate(model, tokenizer, prompt, num_beams=beams, max_new_tokens=length) for prompt in prompts]
    out.write_text(json.dumps(found))
