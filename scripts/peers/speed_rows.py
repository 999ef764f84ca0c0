"""Makes rows of some texts each, for the measurements of speed. WORK.json is that of speed_trainer.py, with `texts`, the
number of texts of a row, and `pixels`, the side of an image.

usage: speed_rows.py WORK.json TEXTS.parquet OUT.jsonl ROWS
"""

import json
import sys
from pathlib import Path

import datafiles
import task_rows


def main():
    work = json.loads(Path(sys.argv[1]).read_text())
    texts, _ = datafiles.texts_and_labels(Path(sys.argv[2]))
    out, count = Path(sys.argv[3]), int(sys.argv[4])
    joined = [join(texts, row * work["texts"], work["texts"]) for row in range(count)]
    if work["task"] == "image-classification":
        rows = [task_rows.drawn(text, index, work["pixels"]) for index, text in enumerate(joined)]
        task_rows.write_images(rows, out.with_suffix(".images"))
    else:
        rows = [task_rows.ROWS[work["task"]](text, index) for index, text in enumerate(joined)]
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))


def join(texts, first, count):
    return " ".join(texts[index % len(texts)] for index in range(first, first + count))


if __name__ == "__main__":
    main()
