"""Layouts and files of rows that other tools read, beside the tool with rows that its user would have made of them."""

import gzip
import io
import json

import pandas
import pyarrow
import pyarrow.parquet
import texts

from tables.base import classes, of, sft

TALKS, PROMPTS, TEXTS = texts.talks(14, 81), texts.prompted(14, 82), texts.plain(14, 83)
CLASSIFIED, TRANSLATED = texts.classified(22, 84), texts.translated(14, 85)
OURS = {"assistant_only_loss": True}
ENDS = {"eot_tokens": ["<|im_end|>"]}
NAMES = {"system": "system", "user": "human", "assistant": "gpt"}
ALPACA = (
    "Below is an instruction that describes a task{}. Write a response that appropriately completes the request.\n\n"
)


def read(rows):
    """The peer's rows in place of those in the file."""
    return {"read": lambda folder: {"train": rows}}


def renamed(rows, column, role, content, names):
    return [
        {column: [{role: names[said["role"]], content: said["content"]} for said in row["messages"]]} for row in rows
    ]


def layout(rows, data, expected, peer=None):
    return sft(rows, data=data, more={**read(expected), "peer": peer or {}})


SHAREGPT = renamed(TALKS, "conversations", "from", "value", NAMES)
OWN = renamed(TALKS, "talk", "who", "says", {"system": "system", "user": "customer", "assistant": "clerk"})
OWN_KEYS = {
    "format": "messages",
    "messages": "talk",
    "message_property_mappings": {"role": "who", "content": "says"},
    "roles": {"user": ["customer"], "assistant": ["clerk"]},
}


def instructed(row):
    """The prompt of Stanford's Alpaca."""
    given = f"### Input:\n{row['input']}\n\n" if row["input"] else ""
    more = ", paired with an input that provides further context" if row["input"] else ""
    prompt = f"{ALPACA.format(more)}### Instruction:\n{row['instruction']}\n\n{given}### Response:\n"
    return {"prompt": prompt, "completion": row["output"]}


INSTRUCTED = texts.instructed(12)
AS_TALKS = [
    {
        "messages": [
            {"role": "user", "content": row["instruction"] + (f"\n{row['input']}" if row["input"] else "")},
            {"role": "assistant", "content": row["output"]},
        ]
    }
    for row in INSTRUCTED
]

CASES = {
    "sharegpt": layout(SHAREGPT, {"format": "sharegpt", **ENDS}, TALKS, OURS),
    "sharegpt-by-marks": layout(SHAREGPT, {"format": "sharegpt", **OURS}, TALKS, OURS),
    "sharegpt-cut": layout(
        SHAREGPT, {"format": "sharegpt", **ENDS, "max_length": 24}, TALKS, {**OURS, "max_length": 24}
    ),
    "own-names": layout(OWN, {**OWN_KEYS, **ENDS}, TALKS, OURS),
    "messages": layout(TALKS, {"format": "messages", **ENDS}, TALKS, OURS),
    "alpaca": layout(INSTRUCTED, {"format": "alpaca"}, [instructed(row) for row in INSTRUCTED]),
    "alpaca-as-talks": layout(
        INSTRUCTED, {"format": "alpaca", "chat_template": "tokenizer_default", **ENDS}, AS_TALKS, OURS
    ),
    "completion": layout(TEXTS, {"format": "completion"}, TEXTS),
}


def table(rows):
    return pyarrow.Table.from_pylist(rows)


def parquet(rows):
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table(rows), buffer)
    return buffer.getvalue()


def arrow(rows):
    buffer = io.BytesIO()
    with pyarrow.ipc.new_stream(buffer, table(rows).schema) as stream:
        stream.write_table(table(rows))
    return buffer.getvalue()


def csv(rows, **options):
    return pandas.DataFrame(rows).to_csv(index=False, **options).encode()


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def file(made, name, content, rows, data=None, **given):
    """A case whose rows are in another file."""
    return made(None, files={name: content}, data={"train": name, **(data or {})}, more=read(rows), **given)


def seq2seq(rows, **given):
    return of("seq2seq-lm", rows, family="t5", **given)


RENAMED = [{"sentence": row["text"], "stars": str(row["label"] + 1), "id": 7} for row in CLASSIFIED]
COLUMNS = {"rename": {"sentence": "text"}, "drop": ["id"], "cast": {"stars": "int64"}}
ESCAPED = {"escapechar": "\\", "doublequote": False, "quoting": 1}
CASES |= {
    "talks-in-parquet": file(sft, "rows.parquet", parquet(TALKS), TALKS),
    "talks-in-arrow": file(sft, "rows.arrow", arrow(TALKS), TALKS),
    "talks-in-json": file(sft, "rows.json", json.dumps(TALKS).encode(), TALKS),
    "talks-compressed": file(sft, "rows.jsonl.gz", gzip.compress(json_lines(TALKS)), TALKS),
    "prompts-in-csv": file(sft, "rows.csv", csv(PROMPTS), PROMPTS),
    "prompts-in-tsv": file(sft, "rows.tsv", csv(PROMPTS, sep="\t"), PROMPTS),
    "translations-in-parquet": file(seq2seq, "rows.parquet", parquet(TRANSLATED), TRANSLATED),
    "classes-in-escaped-csv": file(
        classes, "rows.csv", csv(CLASSIFIED, **ESCAPED), CLASSIFIED, {"escapechar": "\\", "quoting": "all"}
    ),
    "classes-between-bars": file(classes, "rows.csv", csv(CLASSIFIED, sep="|"), CLASSIFIED, {"delimiter": "auto"}),
    "classes-without-a-header": file(
        classes, "rows.csv", csv(CLASSIFIED, header=False), CLASSIFIED, {"names": ["text", "label"]}
    ),
    "classes-behind-lines": file(
        classes, "rows.csv", b"made by hand\n\n" + csv(CLASSIFIED), CLASSIFIED, {"skiprows": 2}
    ),
    "classes-in-quotes-of-one": file(
        classes, "rows.csv", csv(CLASSIFIED, quotechar="'", quoting=1), CLASSIFIED, {"quotechar": "'"}
    ),
    "classes-in-latin": file(
        classes,
        "rows.csv",
        csv(CLASSIFIED).decode().replace("cat", "cät").encode("latin-1"),
        [{**row, "text": row["text"].replace("cat", "cät")} for row in CLASSIFIED],
        {"encoding": "latin-1"},
    ),
    "columns-renamed-and-cast": file(
        classes,
        "rows.jsonl",
        json_lines(RENAMED),
        CLASSIFIED,
        {"columns": COLUMNS, "label": "stars", "label_map": {1: "a", 2: "b", 3: "c"}},
    ),
    "several-files": classes(
        None,
        files={"a.jsonl": CLASSIFIED[:9], "b.csv": csv(CLASSIFIED[9:])},
        data={"train": ["a.jsonl", "b.csv"]},
        more=read(CLASSIFIED),
    ),
}
CASES["columns-renamed-and-cast"].peer = {"label": "label", "label_map": {0: "a", 1: "b", 2: "c"}}
