"""Random jobs whose rows are in files of other formats and dialects, and in several sets."""

import gzip
import io
import json
import string

import datasets
import pandas
import pyarrow
import pyarrow.parquet
import texts
from drawn import arguments
from tables.base import of

# Fields as they occur in tables; words that readers take for numbers, for missing values or for syntax are among them.
ODD = [
    *["", " ", "NA", "N/A", "null", "None", "nan", "NULL", "-", "True", "false", "01", "1e5", "1,000", "3.50", "0x1F"],
    *["a,b", "a;b", "a\tb", "a|b", 'say "no"', '"', '""', "'", "it's", "\\", "\\n", "a\\", "line\nbreak", "  two  "],
    *[
        "#",
        "a # b",
        "// x",
        "Ünïcode",
        "naïve café",
        "日本",
        "😀",
        "é",
        "\u00a0",
        "\ufeff",
        "a\u2028b",
        "=1+1",
        "<b>",
        "{}",
    ],
]
JUNK = ["made by hand", "", "a;b,c", '"quoted" text', "# remark"]


def table(choose):
    """Texts with classes in a file of any format."""
    form = choose.choice([csv] * 6 + [json_rows, json_rows, columns])
    rows = [{"text": text(choose), "label": choose.randrange(3)} for _ in range(choose.randint(9, 20))]
    name, content, data, read = form(choose, rows)
    data = {"train": name, "max_length": 48, **data}
    train = arguments(choose, rows, None, smoothing=False) | {"learning_rate": 1e-3}
    case = of(
        "sequence-classification", None, "roberta", files={name: content}, data=data, model={"num_labels": 3},
        train=train, more={"read": lambda folder: {"train": read()}},
    )  # fmt: skip
    case.may_fail = True
    return case


def text(choose):
    parts = [
        choose.choice(ODD) if choose.random() < 0.4 else texts.words(choose, 3) for _ in range(choose.randint(1, 3))
    ]
    return choose.choice([" ", "", ", "]).join(parts)


def csv(choose, rows):
    """A dialect of CSV, of which pandas reads the rows."""
    dialect = {"sep": choose.choice([",", ",", ";", "\t", "|"])}
    dialect |= choose.some(0.25, quotechar=["'"], comment=["#"], skiprows=[1, 2, 3], na_values=[["-"], ["NA", "None"]])
    dialect |= choose.some(0.3, escapechar=["\\"])
    if "escapechar" in dialect:
        dialect |= choose.some(0.5, doublequote=[False])
    dialect |= choose.some(0.3, quoting=[1, 2] + ([3] if "escapechar" in dialect else []))
    dialect |= choose.some(0.4, on_bad_lines=["skip", "warn"])
    header = choose.choice(["names", "names", "names", "none", "more"])
    ended = choose.choice(["\n", "\n", "\r\n"])
    lines = [choose.choice(JUNK) for _ in range(dialect.get("skiprows", 0))]
    order = choose.choice([["text", "label"], ["label", "text"], ["id", "text", "label"], ["text", "label", "note"]])
    if header != "none":
        lines.append(line(choose, ["a" if header == "more" else name for name in order], dialect))
    if header == "more":
        # The names are in the second line.
        lines.append(line(choose, order, dialect))
        dialect["header"] = 1
    if header == "none":
        dialect["names"] = order
    for number, row in enumerate(rows):
        cells = {"id": number, "note": choose.choice(ODD), **row}
        fields = [str(cells[name]) for name in order]
        if choose.random() < 0.05:
            # A line with too many fields.
            fields.append("more")
        lines.append(line(choose, fields, dialect))
        if choose.random() < 0.05:
            lines.append("")
    encoding = choose.choice(["utf-8"] * 4 + ["utf-8-sig", "utf-16"])
    content = (ended.join(lines) + choose.choice([ended, ""])).encode(encoding)
    name, written = compressed(choose, "rows.csv" if choose.random() < 0.8 else "rows.tsv", content)
    given = {key: value for key, value in dialect.items() if key not in ("sep", "quoting")} | {
        "delimiter": dialect["sep"]
    }
    if "quoting" in dialect:
        given["quoting"] = ["minimal", "all", "nonnumeric", "none"][dialect["quoting"]]
    if encoding == "utf-16":
        given["encoding"] = "utf-16"
    return name, written, given, lambda: frame_rows(content, {**dialect, "encoding": encoding})


def line(choose, fields, dialect):
    """Fields as a careful program writes them, and now and then as a careless one does."""
    quote, escape = dialect.get("quotechar", '"'), dialect.get("escapechar")
    special = {dialect["sep"], quote, "\n", "\r", escape, dialect.get("comment")}
    written = []
    for field in fields:
        needs = any(letter in special for letter in field)
        if dialect.get("quoting") == 3:
            field = "".join(f"\\{letter}" if letter in special else letter for letter in field.replace("\n", " "))
        elif dialect.get("quoting") == 1 or (needs and choose.random() < 0.95) or choose.random() < 0.1:
            if escape:
                field = field.replace(escape, escape * 2)
            doubled = dialect.get("doublequote", True)
            field = quote + field.replace(quote, quote * 2 if doubled else f"\\{quote}") + quote
        elif needs:
            field = field.replace("\n", " ").replace("\r", " ")
        written.append(field)
    return dialect["sep"].join(written)


def frame_rows(content, options):
    """The rows as pandas reads them, all as text; missing values are none."""
    na_values = [*options.pop("na_values", []), ""]
    frame = pandas.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False, na_values=na_values, **options)
    found = [
        {key: None if pandas.isna(value) else value for key, value in row.items()} for row in frame.to_dict("records")
    ]
    return [{"text": row["text"], "label": int(row["label"])} for row in found]


def compressed(choose, name, content):
    match choose.randrange(6):
        case 0:
            return f"{name}.gz", gzip.compress(content)
        case 1:
            return f"{name}.zst", pyarrow.Codec("zstd").compress(content, asbytes=True)
    return name, content


def json_rows(choose, rows):
    """JSON as tools write it; some rows lack a text, or have columns that others have not."""
    rows = [dict(row) for row in rows]
    for row in rows:
        if choose.random() < 0.1:
            row["text"] = None
        if choose.random() < 0.2:
            row["meta"] = choose.choice([{"a": [1, None]}, {"a": [], "b": {"c": "x"}}])
    written = [{key: value for key, value in row.items() if value is not None or choose.random() < 0.5} for row in rows]
    ascii_only = choose.random() < 0.5
    dumped = [json.dumps(row, ensure_ascii=ascii_only) for row in written]
    match choose.randrange(4):
        case 0:
            name, content = "rows.json", json.dumps(written, ensure_ascii=ascii_only, indent=choose.choice([None, 2]))
        case 1:
            name, content = "rows.json", json.dumps({"version": "1", "data": written}, ensure_ascii=ascii_only)
        case 2:
            name, content = "rows.ndjson", "\n\n".join(dumped)
        case _:
            name, content = "rows.jsonl", "\r\n".join(dumped) + "\r\n"
    content = content.encode(choose.choice(["utf-8", "utf-8", "utf-8-sig"]))
    name, content = compressed(choose, name, content) if name != "rows.json" else (name, content)
    return name, content, {}, lambda: rows


def columns(choose, rows):
    """Parquet and Arrow with types that other programs choose."""
    given = [{**row, "text": None if choose.random() < 0.1 else row["text"]} for row in rows]
    text_type = choose.choice([pyarrow.string(), pyarrow.large_string(), pyarrow.string_view(), "dictionary"])
    label_type = choose.choice([pyarrow.int64(), pyarrow.int8(), pyarrow.uint16(), pyarrow.float64(), pyarrow.string()])
    values = pyarrow.array([row["text"] for row in given])
    values = values.dictionary_encode() if text_type == "dictionary" else values.cast(text_type)
    labels = pyarrow.array([row["label"] for row in given]).cast(label_type)
    made = pyarrow.table(
        {"text": values, "label": labels, "list": [[1.5, None]] * len(given), "none": [None] * len(given)}
    )
    out = io.BytesIO()
    is_viewed = text_type == pyarrow.string_view()
    if choose.random() < 0.6 and not is_viewed:
        options = choose.some(
            0.5, compression=["zstd", "gzip", "none", "lz4", "brotli"], row_group_size=[3], use_dictionary=[False]
        )
        options |= choose.some(0.3, data_page_version=["2.0"], version=["1.0"])
        pyarrow.parquet.write_table(made, out, **options)
        return "rows.parquet", out.getvalue(), {}, lambda: given
    maker = choose.choice([pyarrow.ipc.new_stream, pyarrow.ipc.new_file])
    with maker(out, made.schema) as stream:
        stream.write_table(made, max_chunksize=choose.choice([None, 4]))
    return choose.choice(["rows.arrow", "rows.feather"]), out.getvalue(), {}, lambda: given


def mixture(choose):
    """Texts of two or three sets, of which splits are read, mixed in one of the ways."""
    count = choose.randint(2, 3)
    sets = [texts.plain(choose.randint(5, 16), choose.randrange(1000), 5) for _ in range(count)]
    names = [f"{letter}.jsonl" for letter in string.ascii_lowercase[:count]]
    entries, limits = [], []
    mode = choose.choice(["concatenate", "first_exhausted", "all_exhausted", "all_exhausted_without_replacement"])
    weights = [choose.randint(1, 5) for _ in sets] if mode != "concatenate" and choose.random() < 0.6 else None
    for number, name in enumerate(names):
        entry = {"path": name} | choose.some(0.4, split=[expression(choose)]) | choose.some(0.2, limit=[3, 5])
        if not taken(sets[number], entry.get("split", "train")):
            # Where a set has no rows, datasets takes rows of the next one.
            del entry["split"]
        entries.append(entry | ({"weight": weights[number] / sum(weights)} if weights else {}))
    limits = choose.some(0.2, max_samples=[4, 6])
    seed = choose.randrange(100)
    train = arguments(choose, sets[0], None, smoothing=False) | {
        "max_steps": None,
        "num_train_epochs": 1,
        "data_seed": seed,
    }

    def read(folder):
        parts = []
        for rows, entry in zip(sets, entries, strict=True):
            found = taken(rows, entry.get("split", "train"))
            parts.append(
                datasets.Dataset.from_list(found[: min(entry.get("limit", 99), limits.get("max_samples", 99))])
            )
        if mode == "concatenate":
            return {"train": datasets.concatenate_datasets(parts).to_list()}
        odds = [entry["weight"] for entry in entries] if weights else None
        mixed = datasets.interleave_datasets(parts, probabilities=odds, seed=seed, stopping_strategy=mode)
        return {"train": mixed.to_list()}

    case = of(
        "sft", None, choose.choice(["llama", "gpt2", "qwen2"]), files=dict(zip(names, sets, strict=True)),
        data={"train": entries, "mixing": mode, **limits}, train=train, more={"read": read},
    )  # fmt: skip
    case.may_fail = True
    return case


def expression(choose):
    """A split of one file."""

    def part():
        ends = [choose.choice(["", str(choose.randint(-6, 9)), f"{choose.randint(-60, 100)}%"]) for _ in range(2)]
        return choose.choice(["train", f"train[{ends[0]}:{ends[1]}]"])

    return "+".join(part() for _ in range(choose.choice([1, 1, 2])))


def taken(rows, split):
    """The rows of a split, as `datasets` finds their places."""
    found = []
    for part in datasets.ReadInstruction.from_spec(split).to_absolute({"train": len(rows)}):
        found += rows[part.from_ : part.to]
    return found
