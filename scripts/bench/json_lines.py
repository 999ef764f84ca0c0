"""Writes the rows of a Parquet file as lines of JSON.

usage: json_lines.py ROWS.parquet OUT.jsonl
"""

import json
import sys
from pathlib import Path

import pyarrow.parquet


def main():
    rows = pyarrow.parquet.read_table(sys.argv[1]).to_pylist()
    Path(sys.argv[2]).write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
