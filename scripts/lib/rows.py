"""Rows of the examples: which of them are evaluated, and the files that hold them."""

import hashlib
import json


def digest(name):
    """A number that every machine has of a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def is_held_out(name, share):
    """Whether the row with this name is one of the evaluated share, on every machine the same."""
    return digest(name) < share * 2**32


def write(file, rows):
    """Writes rows, which are dictionaries, as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
