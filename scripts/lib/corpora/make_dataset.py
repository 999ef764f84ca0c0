"""Writes train.parquet, validation.csv and labels.json: short texts of the 20 most frequent classes.

usage: make_dataset.py OUT TRAIN_ROWS VALIDATION_ROWS [--apt-folder FOLDER]
"""

import argparse
import collections
import hashlib
import json
import sys
from pathlib import Path

import pyarrow
import pyarrow.csv
import pyarrow.parquet

import generated_text
import package_index

CLASSES = 20
ROWS_MIN = 2000


def main():
    arguments = parse_arguments()
    rows, source = labelled_rows(arguments.train_rows + arguments.validation_rows, arguments.apt_folder)
    labels = [label for label, _ in collections.Counter(label for _, label in rows).most_common(CLASSES)]
    rows = shuffled(row for row in rows if row[1] in labels)
    validation, train = rows[: arguments.validation_rows], rows[arguments.validation_rows :][: arguments.train_rows]
    write(arguments.out, labels, train, validation)
    print(f"{len(train)} rows to train on, {len(validation)} to validate with, {source}", file=sys.stderr)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("train_rows", type=int)
    parser.add_argument("validation_rows", type=int)
    parser.add_argument("--apt-folder", type=Path, default=Path("apt"))
    return parser.parse_args()


def labelled_rows(count, apt_folder):
    rows = package_index.rows(apt_folder)
    if len(rows) >= max(ROWS_MIN, count):
        return rows, "package descriptions and their sections"
    print("no package index with enough rows on this machine: the text is generated", file=sys.stderr)
    return generated_text.rows(count), "generated text and its topics"


def shuffled(rows):
    """A sort key that depends only on the row's text, and so is the same on every machine with the same packages."""
    return sorted(rows, key=lambda row: hashlib.sha256(row[0].encode()).digest())


def write(out, labels, train, validation):
    (out / "labels.json").write_text(json.dumps(labels, indent=1) + "\n")
    pyarrow.parquet.write_table(table(train, labels), out / "train.parquet", row_group_size=1000)
    pyarrow.csv.write_csv(table(validation, labels), out / "validation.csv")


def table(rows, labels):
    return pyarrow.table(
        {
            "text": [text for text, _ in rows],
            "section": [label for _, label in rows],
            "label": pyarrow.array([labels.index(label) for _, label in rows], pyarrow.int64()),
        }
    )


if __name__ == "__main__":
    main()
