"""Reads the texts and labels of a Parquet or CSV file."""

import pyarrow.csv
import pyarrow.parquet


def texts_and_labels(path, text="text", label="label"):
    table = read_csv(path) if path.suffix == ".csv" else pyarrow.parquet.read_table(path)
    return table[text].to_pylist(), table[label].to_pylist()


def read_csv(path):
    return pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
