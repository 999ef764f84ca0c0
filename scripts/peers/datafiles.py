"""Reads the texts and labels of a Parquet, CSV or JSON lines file. The last needs no library, which a host with a GPU may lack."""

import json


def texts_and_labels(path, text="text", label="label"):
    columns = READERS[path.suffix](path)
    return list(columns[text]), list(columns[label])


def read_parquet(path):
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path).to_pydict()


def read_csv(path):
    import pyarrow.csv

    return pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True)).to_pydict()


def read_lines(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {name: [row[name] for row in rows] for name in rows[0]}


READERS = {".parquet": read_parquet, ".csv": read_csv, ".jsonl": read_lines}
