"""Generates texts with transformers, for prompts that are the first words of texts.

Weights of random models are enlarged first, and saved so: otherwise all texts would be the same word, again and again.
Then random adapters are put on them, saved in a folder of their own, and generate too.

usage: generate.py MODEL_DIR ADAPTERS_DIR TEXTS.csv MAX_NEW_TOKENS SEED OUT.json
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import peft
import torch
import transformers

import datafiles

PROMPTS = 200
ENLARGED = 4.0
ENDS_OF = 4
WAYS = {"greedy": 1, "4 beams": 4}
RANK = 4
# The second matrix of an adapter begins as zeros, which change no text.
DEVIATION = 0.05


def load(folder):
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(ENLARGED)
    return model


def adapt(model, folder, seed):
    """Puts random adapters on all layers, and saves them without a tokenizer, as PEFT does."""
    task = "SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM"
    settings = peft.LoraConfig(task_type=task, r=RANK, target_modules="all-linear")
    # A text that differs can be looked into only with the same adapters.
    torch.manual_seed(seed)
    adapted = peft.get_peft_model(model, settings).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=DEVIATION)
    adapted.save_pretrained(folder)
    return adapted


def let_texts_end(model, tokenizer, prompts, length):
    """Lets a text end with any of the tokens that some texts have behind their first half."""
    texts = generate(model, tokenizer, prompts[:ENDS_OF], max_new_tokens=length)
    model.generation_config.eos_token_id = sorted({token for tokens in texts for token in tokens[length // 2 :]})


def first_words(texts):
    """The beginnings of texts, with different numbers of words."""
    return [" ".join(text.split()[: 2 + index % 9]) for index, text in enumerate(texts[:PROMPTS])]


def generate(model, tokenizer, prompts, **settings):
    """The new tokens of each prompt, up to the one that ends the text. Prompts of as many tokens are generated together, so
    that nothing is padded."""
    ids = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    found = {}
    for length in {len(tokens) for tokens in ids}:
        places = [place for place, tokens in enumerate(ids) if len(tokens) == length]
        inputs = torch.tensor([ids[place] for place in places])
        rows = model.generate(
            input_ids=inputs, attention_mask=torch.ones_like(inputs), do_sample=False, **settings
        ).tolist()
        start = 1 if model.config.is_encoder_decoder else length
        found |= {place: ended(row[start:], model) for place, row in zip(places, rows, strict=True)}
    return [found[place] for place in range(len(prompts))]


def ended(tokens, model):
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return tokens[: next((place for place, token in enumerate(tokens, 1) if token in ends), None)]


if __name__ == "__main__":
    # Threads only wait for each other in models as small as these.
    torch.set_num_threads(1)
    folder, adapters, texts, length, seed, out = sys.argv[1:]
    folder, length = Path(folder), int(length)
    # As tokenizer.json has it: AutoTokenizer would put Qwen's own class in place of the folder's.
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    model = load(folder)
    prompts = first_words(datafiles.texts_and_labels(Path(texts))[0])
    let_texts_end(model, tokenizer, prompts, length)
    model.save_pretrained(folder)
    found = {"prompts": prompts}
    for kind in ["model", "adapters"]:
        model = adapt(model, adapters, int(seed)) if kind == "adapters" else model
        found[kind] = {
            way: generate(model, tokenizer, prompts, num_beams=beams, max_new_tokens=length)
            for way, beams in WAYS.items()
        }
    Path(out).write_text(json.dumps(found))
