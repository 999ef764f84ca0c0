"""Makes rows of every task from texts by fixed rules, since the comparison is about arithmetic and not about learning.

usage: task_rows.py TASK TEXTS.parquet|TEXTS.csv OUT.jsonl [ROWS]
"""

import json
import sys
from pathlib import Path

import datafiles
import pictures

ROWS_MAX = 1000

ROWS = {}


def rows_of(task):
    def register(function):
        ROWS[task] = function
        return function

    return register


@rows_of("sequence-classification")
def classified(text, index):
    return {"text": text, "label": len(text) % 3}


@rows_of("token-classification")
def labelled_words(text, index):
    words = text.split()
    return {"tokens": words, "labels": [word_label(word) for word in words]}


def word_label(word):
    if word[:1].isupper():
        return "B-NAME"
    return "B-LONG" if len(word) > 7 else "O"


@rows_of("question-answering")
def answered(text, index):
    """A question that asks for the word in the middle of the text by the preceding word."""
    words = text.split()
    middle = len(words) // 2
    start = len(" ".join(words[:middle])) + (1 if middle else 0)
    context = " ".join(words)
    return {
        "id": f"q{index}",
        "question": f"what follows {words[middle - 1]}?",
        "context": context,
        "answers": {"text": [words[middle]], "answer_start": [start]},
    }


@rows_of("seq2seq-lm")
def rewritten(text, index):
    """Its long words, backwards."""
    return {"source": text, "target": " ".join(word for word in reversed(text.split()) if len(word) > 4) or "none"}


@rows_of("image-classification")
def drawn(text, index, size=pictures.SIZE):
    """The text as an image, which `write_images` writes beside the rows."""
    return {"image": pictures.of_text(text, size), "label": len(text) % 3}


@rows_of("masked-lm")
@rows_of("causal-lm")
def plain(text, index):
    return {"text": text}


def main():
    task, texts, out, *rows_max = sys.argv[1:]
    texts, _ = datafiles.texts_and_labels(Path(texts))
    long_enough = [text for text in texts if len(text.split()) > 2][: int(rows_max[0]) if rows_max else ROWS_MAX]
    rows = [ROWS[task](text, index) for index, text in enumerate(long_enough)]
    if task == "image-classification":
        write_images(rows, Path(out).with_suffix(".images"))
    Path(out).write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_images(rows, folder):
    """Puts the paths of files, from the folder of the rows on, in place of the pixels."""
    folder.mkdir()
    for index, row in enumerate(rows):
        file = folder / f"{index}.png"
        pictures.write(file, row["image"])
        row["image"] = f"{folder.name}/{file.name}"


if __name__ == "__main__":
    main()
