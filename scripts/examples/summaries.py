"""Trains a small T5 to write a package's synopsis from its description, and compares it with the first three sentences.

Packages of a fiftieth of all sources are evaluated. Those of one source have descriptions with much in common, so that
a source is either trained on or evaluated.

A synopsis shares words with its description, most of them rare. A small model learns within minutes where they go, but
not to copy what it has never seen: words that fewer than some sources have are marks for it (lib/corpora/marks.py).

The scores of the first sentence alone are printed too. A sentence of a good description says what its synopsis says.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("lib", "lib/corpora")]

import descriptions
import marks
import progress
import rows
import service
import small_models

EVALUATED = 0.02
# A word of fewer sources is a mark.
SOURCES_MIN = 150
# Words of a description, whose first sentences say what a package is.
WORDS_MAX = 32
VOCABULARY = 1500
SOURCE_TOKENS_MAX = 48
TARGET_TOKENS_MAX = 16
# The end of a sentence, or of a paragraph.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
MODEL = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_model": 128,
    "d_kv": 32,
    "d_ff": 384,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
    "decoder_start_token_id": small_models.PAD_ID,
}


@dataclass(frozen=True)
class Package:
    """A description and its first line, with the source of the package."""

    source: str
    body: str
    synopsis: str


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--descriptions", required=True, type=Path, help="the folder of lib/corpora/descriptions.py")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--epochs", type=float, default=3)
    options = parser.parse_args()
    found = descriptions.read(options.descriptions, "en").values()
    train, evaluated = packages(found, descriptions.sources(options.descriptions))
    print(f"{len(train)} descriptions to train on, {len(evaluated)} to evaluate")
    with tempfile.TemporaryDirectory(prefix="summaries.") as scratch:
        scratch = Path(scratch)
        names = prepare(scratch, train, evaluated)
        start = time.monotonic()
        with service.Daemon(options.traind) as daemon:
            daemon.run(job(options, scratch), progress.show)
        minutes = (time.monotonic() - start) / 60
        written = predictions(scratch / "output" / "predictions.parquet")
    texts = [marks.restored(text, own) for text, own in zip(written, names, strict=True)]
    for package, text in list(zip(evaluated, texts, strict=True))[:5]:
        print(f"{package.body[:100]}... -> {text}")
    report(texts, evaluated, minutes)


def report(texts, evaluated, minutes):
    first = {count: score([sentences(package.body, count) for package in evaluated], evaluated) for count in (1, 3)}
    found = score(texts, evaluated)
    print(f"after {minutes:.1f} minutes: {shown(found)}")
    print(f"first three sentences: {shown(first[3])}\nfirst sentence: {shown(first[1])}")
    sys.exit(0 if found["rouge1"] > first[3]["rouge1"] else "not better than the first three sentences")


def shown(scores):
    return ", ".join(f"{name} {value:.3f}" for name, value in scores.items())


def packages(found, sources):
    """Packages to train on and to evaluate, each synopsis once."""
    train, evaluated = {}, {}
    for description in found:
        if not description.body:
            continue
        source = sources.get(description.package, description.package)
        split = evaluated if rows.is_held_out(source, EVALUATED) else train
        split.setdefault(description.synopsis, Package(source, description.body, description.synopsis))
    return list(train.values()), [package for package in evaluated.values() if package.synopsis not in train]


def sentences(text, count):
    return " ".join(SENTENCE_END.split(text)[:count])


def beginning(text):
    return " ".join(text.split()[:WORDS_MAX])


def score(texts, evaluated):
    """Means of F1 by rouge_score, with stems as in `eval_rouge1`."""
    # It is not in the environment of the tests of this file, nor is pyarrow.
    from rouge_score import rouge_scorer

    names = ["rouge1", "rouge2", "rougeL"]
    scorer = rouge_scorer.RougeScorer(names, use_stemmer=True)
    pairs = zip(evaluated, texts, strict=True)
    scores = [scorer.score(package.synopsis, text) for package, text in pairs]
    return {name: sum(found[name].fmeasure for found in scores) / len(scores) for name in names}


def predictions(file):
    import pyarrow.parquet

    return pyarrow.parquet.read_table(file)["prediction"].to_pylist()


def prepare(scratch, train, evaluated):
    """Writes the folder of the model, and the rows with marks. Returns the names in each that is evaluated."""
    texts = ((package.source, f"{beginning(package.body)} {package.synopsis}") for package in train)
    known = marks.known_words(texts, SOURCES_MIN)
    rewritten = [marked_row(package, known) for package in train]
    texts = (text for row in rewritten for text in row.values())
    tokenizer = small_models.write(scratch / "model", MODEL, texts, VOCABULARY)
    is_short = lambda row: len(tokenizer.encode(row["target"])) <= TARGET_TOKENS_MAX
    can_be_written = lambda row: all(
        word in marks.MARKS or word.lower() in known for word in marks.WORD.findall(row["target"])
    )
    rows.write(scratch / "train.jsonl", (row for row in rewritten if is_short(row) and can_be_written(row)))
    rows.write(scratch / "test.jsonl", (marked_row(package, known) for package in evaluated))
    return [names_of(package, known) for package in evaluated]


def names_of(package, known):
    return marks.names_of(beginning(package.body), known)


def marked_row(package, known):
    names = names_of(package, known)
    texts = {"source": beginning(package.body), "target": in_case_of(names, package.synopsis)}
    return {column: marks.marked(text, names) for column, text in texts.items()}


def in_case_of(names, text):
    """The text with names in the case that the description has."""
    by_lower = {name.lower(): name for name in names}
    return marks.WORD.sub(lambda word: by_lower.get(word[0].lower(), word[0]), text)


def job(options, scratch):
    return {
        "name": "summaries",
        "model": {"name_or_path": str(scratch / "model"), "task": "seq2seq-lm", "from_config": True},
        "data": {
            "train": str(scratch / "train.jsonl"),
            "test": str(scratch / "test.jsonl"),
            "max_source_length": SOURCE_TOKENS_MAX,
            "max_target_length": TARGET_TOKENS_MAX,
            "pad_to_multiple_of": 16,
        },
        "train": {
            "num_train_epochs": options.epochs,
            "per_device_train_batch_size": 64 // options.cores,
            "per_device_eval_batch_size": 64,
            "learning_rate": 3e-3,
            "warmup_steps": 0.05,
            "lr_scheduler_type": "linear",
            "weight_decay": 0.01,
            "logging_steps": 100,
            "train_sampling_strategy": "group_by_length",
            "do_predict": True,
            "predict_with_generate": True,
            "generation_max_length": TARGET_TOKENS_MAX,
            "generation_num_beams": 2,
            "save_strategy": "no",
        },
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(scratch / "output"),
    }


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    main()
