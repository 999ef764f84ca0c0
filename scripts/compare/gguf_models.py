"""Compares a model folder that traind made of a GGUF file with what transformers loads from the file.

usage: gguf_models.py MODEL.gguf FOLDER
"""

import sys
from pathlib import Path

import torch
import transformers

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


def compare_weights(theirs, ours):
    expected, found = theirs.state_dict(), ours.state_dict()
    if expected.keys() != found.keys():
        sys.exit(f"other tensors: {sorted(expected.keys() ^ found.keys())}")
    differing = [name for name in expected if not torch.equal(expected[name], found[name])]
    if differing:
        sys.exit(f"{len(differing)} of {len(expected)} tensors differ, the first is {differing[0]}")
    print(f"{len(expected)} tensors are equal to the bit")


def compare_tokens(theirs, ours):
    # Prose and code, with odd characters.
    lines = [
        line
        for file in sorted(Path(transformers.__file__).parent.glob("*.py"))
        for line in file.read_text().splitlines()
    ]
    texts = [*dict.fromkeys(lines), "  two  spaces", "日本語 café 😀", "<|im_start|>user\nHi<|im_end|>\n"]
    for text in texts:
        expected, found = theirs(text)["input_ids"], ours(text)["input_ids"]
        if expected != found:
            sys.exit(f"{text!r}: {found} where transformers has {expected}")
    if theirs.chat_template != ours.chat_template:
        sys.exit("another chat template")
    print(f"{len(texts)} texts have equal tokens")


def main(file, folder):
    source = dict(pretrained_model_name_or_path=str(Path(file).parent), gguf_file=Path(file).name)
    load = transformers.AutoModelForCausalLM.from_pretrained
    compare_weights(load(**source, dtype=torch.float32), load(folder, dtype=torch.float32))
    load = transformers.AutoTokenizer.from_pretrained
    compare_tokens(load(**source), load(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
