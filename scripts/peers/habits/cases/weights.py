"""Files of weights."""

import json
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file

from case import case
from cases.bases import BLOCKS, TEXTS


def rewritten(change):
    """Weights that `change` makes of those in the folder."""

    def finish(folder):
        path = folder / "model.safetensors"
        save_file(change(load_file(path)), path, metadata={"format": "pt"})

    return finish


def renamed(*pairs):
    def change(weights):
        for old, new in pairs:
            weights = {name.replace(old, new): values for name, values in weights.items()}
        return weights

    return rewritten(change)


def without(*words):
    return rewritten(lambda weights: {n: values for n, values in weights.items() if not any(w in n for w in words)})


def in_type(dtype):
    return rewritten(lambda weights: {name: values.to(dtype) for name, values in weights.items()})


def sharded(folder):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    halves = [names[::2], names[1::2]]
    places = {}
    for number, half in enumerate(halves, 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: weights[name] for name in half}, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(half, file)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def pickled(folder):
    path = folder / "model.safetensors"
    torch.save(load_file(path), folder / "pytorch_model.bin")
    path.unlink()


def converted(folder):
    """As traind's error for pickled weights says."""
    pickled(folder)
    subprocess.run([sys.executable, "-c", CONVERSION], cwd=folder, check=True)
    (folder / "pytorch_model.bin").unlink()


# The command that the error for pickled weights names.
CONVERSION = (
    "import torch, safetensors.torch as s; s.save_file({n: t.contiguous().clone() "
    "for n, t in torch.load('pytorch_model.bin', weights_only=True).items()}, "
    "'model.safetensors', {'format': 'pt'})"
)


def with_buffers(weights):
    buffer = {"bert.embeddings.position_ids": torch.arange(32).unsqueeze(0)}
    head = {"cls.predictions.bias": torch.zeros(50), "cls.predictions.decoder.weight": torch.zeros(50, 16)}
    return weights | buffer | head


@case
def stored_weights():
    old = renamed(("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
    # The types are only stored: transformers 5 computes in the type of the file unless another is given.
    stored = {"loading": {"dtype": torch.float32}}
    return {
        "pickled": {**TEXTS, "finish": pickled, "refusal": CONVERSION},
        "pickled-converted": {**TEXTS, "finish": converted},
        "half-precision": {**TEXTS, **stored, "finish": in_type(torch.float16), "config": {"dtype": "float16"}},
        "bfloat16": {**TEXTS, **stored, "finish": in_type(torch.bfloat16), "config": {"torch_dtype": "bfloat16"}},
        "double": {**TEXTS, **stored, "finish": in_type(torch.float64)},
        "several-files": {**TEXTS, "finish": sharded},
        "without-prefix": {**TEXTS, "finish": renamed(("bert.", ""))},
        "gamma-and-beta": {**TEXTS, "finish": old},
        "buffers-and-other-heads": {**TEXTS, "finish": rewritten(with_buffers)},
        "decoder-stored-twice": {
            **BLOCKS,
            "finish": rewritten(
                lambda weights: (
                    weights
                    | {"cls.predictions.decoder.weight": weights["bert.embeddings.word_embeddings.weight"].clone()}
                )
            ),
        },
        "without-pooler": {**TEXTS, "finish": without("pooler"), "is_drawn": True},
        "without-head": {**TEXTS, "finish": without("classifier"), "is_drawn": True},
    }
