"""Tokenizes a file of texts with `datasets.map` and the fast tokenizer, and writes the time as JSON."""

import argparse
import json
import time
from pathlib import Path

import pyarrow.compute
from datasets import disable_progress_bars, load_dataset
from transformers import AutoTokenizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a folder with a tokenizer")
    parser.add_argument("--file", required=True, help="JSON lines with a column `text`")
    parser.add_argument("--processes", required=True, type=int)
    parser.add_argument("--max-length", required=True, type=int)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()

    disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    assert tokenizer.is_fast

    def tokenize(batch):
        return tokenizer(batch["text"], truncation=True, max_length=options.max_length)

    begin = time.perf_counter()
    texts = load_dataset("json", data_files=options.file, split="train")
    loaded = time.perf_counter()
    tokenized = texts.map(tokenize, batched=True, num_proc=options.processes, remove_columns=["text"])
    end = time.perf_counter()
    lengths = pyarrow.compute.list_value_length(tokenized.data.column("input_ids"))
    options.out.write_text(
        json.dumps(
            {
                "rows": len(tokenized),
                "tokens": pyarrow.compute.sum(lengths).as_py(),
                "seconds": end - begin,
                "map_seconds": end - loaded,
            }
        )
    )


if __name__ == "__main__":
    main()
