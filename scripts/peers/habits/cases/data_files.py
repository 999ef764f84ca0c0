"""Rows and their files."""

import csv
import gzip
import io
import json
from decimal import Decimal

import pyarrow
import pyarrow.parquet

from case import case
from cases.bases import GPT2, PAIRS, QUESTIONS, TEXTS
from features import labelled
from rows import classified, pairs, questions


@case
def texts_that_are_empty():
    def emptied(rows, *columns):
        emptied = {index: {column: value for column in columns} for index, value in [(1, ""), (6, None), (11, "")]}
        return [row | emptied.get(index, {}) for index, row in enumerate(rows)]

    def without_contexts(rows):
        nothing = {"text": [], "answer_start": []}
        changed = {2: {"question": ""}, 5: {"context": "", "answers": nothing}, 7: {"question": "", "context": ""}}
        changed[7]["answers"] = nothing
        return [row | changed.get(index, {}) for index, row in enumerate(rows)]

    return {
        "first": {**TEXTS, "rows": emptied(classified(30), "text")},
        "second": {**PAIRS, "rows": emptied(pairs(30), "pair")},
        "both": {**PAIRS, "rows": emptied(pairs(30), "text", "pair")},
        "questions": {**QUESTIONS, "rows": without_contexts(questions(30))},
        "gpt2": {**TEXTS, **GPT2, "rows": emptied(classified(30), "text")},
    }


def table(encoding="utf-8", header=None, **options):
    """A CSV file, with other names of its columns in `header`."""

    def content(rows):
        out = io.StringIO()
        writer = csv.writer(out, **{"lineterminator": "\n", **options})
        writer.writerow(header or rows[0])
        writer.writerows(row.values() for row in rows)
        return out.getvalue().encode(encoding)

    return content


CSV = {**TEXTS, "file": "csv", "reader": ("csv", {})}


@case
def encodings():
    rows = [{**row, "text": row["text"] + " caf\u00e9 na\u00efve"} for row in classified(30)]
    shared = {**CSV, "rows": rows, "evaluated": rows[:13]}
    names = ["latin-1", "utf-16", "cp1252"]
    cases = {
        name: {
            **shared,
            "content": table(name),
            "data": {**TEXTS["data"], "encoding": name},
            "reader": ("csv", {"encoding": name}),
        }
        for name in names
    }
    # As Excel writes it.
    return {**cases, "utf-8-with-a-mark": {**shared, "content": table("utf-8-sig")}}


@case
def csv_files():
    changed = {3: 'she said "cat" and\nwas', 5: "the, a", 8: "  big cat  ", 9: 'a "red" box'}
    texts = [{**row, "text": changed.get(index, row["text"])} for index, row in enumerate(classified(30))]
    numbered = [{"number": index, **row} for index, row in enumerate(classified(30))]
    fractions = [{**row, "label": float(row["label"])} for row in classified(30)]
    twice = [{**row, "text.1": "the same"} for row in classified(30)]
    names = ["animal", "fruit", "tool"]
    named = [{**row, "label": names[row["label"]]} for row in classified(30)]

    def bare(rows):
        """Quotes within fields that are not quoted."""
        return "text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows)

    def headless(rows):
        return "".join(f"{row['text']},{row['label']}\n" for row in rows)

    inches = [{**row, "text": row["text"] + ' 5" box'} for row in classified(30)]
    return {
        "carriage-returns": {**CSV, "rows": texts, "content": table(lineterminator="\r\n")},
        "quoted-line-breaks": {**CSV, "rows": texts, "content": table()},
        "inches": {**CSV, "rows": inches, "content": bare},
        "index-of-pandas": {
            **CSV,
            "rows": numbered,
            "evaluated": numbered[:13],
            "content": table(header=["", "text", "label"]),
            "reader": ("csv", {"column_names": ["number", "text", "label"], "skiprows": 1}),
        },
        "column-twice": {
            **CSV,
            "rows": twice,
            "content": table(header=["text", "label", "text"]),
            "refusal": "2 columns are named",
        },
        "labels-as-fractions": {**CSV, "rows": fractions, "features": labelled(int), "content": table()},
        "semicolons": {
            **CSV,
            "content": table(delimiter=";"),
            "data": {**TEXTS["data"], "delimiter": ";"},
            "reader": ("csv", {"delimiter": ";"}),
        },
        "semicolons-unsaid": {
            **CSV,
            "content": table(delimiter=";"),
            "reader": (),
            "refusal": "is data.delimiter right?",
        },
        "tabs": {**CSV, "file": "tsv", "content": table(delimiter="\t"), "reader": ("csv", {"delimiter": "\t"})},
        "without-header": {**CSV, "content": headless, "reader": (), "refusal": "no column"},
        "names-as-labels": {
            **CSV,
            "rows": named,
            "features": labelled(names.index),
            "content": table(),
            "evaluated": named[:13],
        },
    }


@case
def json_files():
    def lines_apart(rows):
        return "\n".join(json.dumps(row) + "\n" for row in rows).rstrip("\n")

    def compressed(rows):
        return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())

    def without_missing(rows):
        present = [{key: value for key, value in row.items() if value is not None} for row in rows]
        return "".join(json.dumps(row) + "\n" for row in present)

    lacking = [{**row, "text": row["text"] if index % 7 else None} for index, row in enumerate(classified(30), 1)]
    reading = {**TEXTS, "reader": ("json", {})}
    fractions = [{**row, "label": float(row["label"])} for row in classified(30)]
    more = [{**row, "meta": {"source": [index, None]}} for index, row in enumerate(classified(30))]
    return {
        "blank-lines": {**reading, "content": lines_apart},
        "one-list": {**reading, "file": "json", "content": lambda rows: json.dumps(rows, indent=1)},
        "one-list-by-another-name": {**reading, "content": json.dumps, "refusal": "is called .json"},
        "under-data": {
            **TEXTS,
            "file": "json",
            "content": lambda rows: json.dumps({"version": "1", "data": rows}),
            "reader": ("json", {"field": "data"}),
        },
        "compressed": {**reading, "file": "jsonl.gz", "content": compressed},
        "keys-missing": {**reading, "rows": lacking, "content": without_missing},
        "labels-as-fractions": {**reading, "rows": fractions, "features": labelled(int)},
        "nested-columns": {**reading, "rows": more},
        "trailing-comma": {
            **TEXTS,
            "content": lambda rows: "".join(json.dumps(row) + ",\n" for row in rows),
            "refusal": "comma behind the object",
        },
    }


def parquet(change):
    """A Parquet file of the columns that `change` makes of rows."""

    def content(rows):
        out = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(change(rows), out)
        return out.getvalue().to_pybytes()

    return content


@case
def parquet_files():
    def columns(text=lambda texts: texts, label=lambda labels: labels, **more):
        def change(rows):
            texts = text(pyarrow.array([row["text"] for row in rows]))
            labels = label(pyarrow.array([row["label"] for row in rows]))
            others = {name: make(rows) for name, make in more.items()}
            return pyarrow.table({"text": texts, "label": labels, **others})

        return parquet(change)

    def with_class_names(rows):
        feature = {
            "text": {"dtype": "string", "_type": "Value"},
            "label": {"names": ["animal", "fruit", "tool"], "_type": "ClassLabel"},
        }
        plain = pyarrow.table({key: [row[key] for row in rows] for key in rows[0]})
        return plain.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": feature}})})

    def unused(rows):
        return pyarrow.array([None] * len(rows), pyarrow.null())

    def times(rows):
        return pyarrow.array(range(len(rows)), pyarrow.timestamp("us", "UTC"))

    def lists(rows):
        return pyarrow.array([[{"a": 1, "b": {"c": "x"}}]] * len(rows))

    def decimals(labels):
        return pyarrow.array([Decimal(value) for value in labels.to_pylist()], pyarrow.decimal128(5, 0))

    reading = {**TEXTS, "file": "parquet", "reader": ("parquet", {})}
    return {
        "categories": {**reading, "content": columns(text=lambda texts: texts.dictionary_encode())},
        "large-strings": {**reading, "content": columns(text=lambda texts: texts.cast(pyarrow.large_string()))},
        "small-integers": {**reading, "content": columns(label=lambda labels: labels.cast(pyarrow.uint8()))},
        "decimals": {**reading, "content": columns(label=decimals), "reader": (), "refusal": "Decimal128"},
        "other-columns": {**reading, "content": columns(empty=unused, time=times, lists=lists)},
        "class-names": {**reading, "content": parquet(with_class_names)},
    }
