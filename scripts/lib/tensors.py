"""Tensors of safetensors files, read without a package."""

import array
import json


def raw(file):
    """The bytes of each tensor of a file, by its name."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    values = content[8 + length :]
    return {name: values[slice(*tensor["data_offsets"])] for name, tensor in header.items()}


def floats(file):
    """The float32 values of each tensor of a file, by its name."""
    return {name: array.array("f", values) for name, values in raw(file).items()}
