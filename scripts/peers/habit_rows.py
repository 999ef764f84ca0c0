"""Reads the rows files of habits as transformers' example scripts do, with `load_dataset`, and compares the rows with those
that the Trainer was given.

usage: habit_rows.py OUT_DIR NAME...
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import datasets


def main():
    out, *names = sys.argv[1:]
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(prefix="datasets.") as cache:
        wrong = [complaint for name in names for complaint in complaints(Path(out) / name, cache)]
    print("\n".join(wrong), file=sys.stderr, end="")
    sys.exit(1 if wrong else 0)


def complaints(folder, cache):
    case = json.loads((folder / "case.json").read_text())
    if not case["reader"]:
        return
    reader, options = case["reader"]
    files = str(folder / case["file"])
    found = datasets.load_dataset(reader, data_files=files, split="train", cache_dir=cache, **options).to_list()
    expected = json.loads((folder / "rows.json").read_text())
    if len(found) != len(expected):
        yield f"{folder.name}: load_dataset reads {len(found)} rows, not {len(expected)}\n"
    for number, (row, other) in enumerate(zip(found, expected, strict=False)):
        read = {key: row.get(key) for key in other}
        if read != other:
            yield f"{folder.name}: load_dataset reads {read} in row {number}, not {other}\n"
            return


if __name__ == "__main__":
    main()
