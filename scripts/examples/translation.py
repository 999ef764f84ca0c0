"""Trains a small T5 to translate synopses of packages to German, and compares it with copying the English ones.

Packages of a twentieth of all sources are evaluated. Those of one source have synopses with much in common, so that a
source is either trained on or evaluated.

No model can know the names of software that it has never seen: words that few sources have are marks for it
(lib/corpora/marks.py).

The score that looking up the translation of the nearest synopsis reaches is printed too.
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

EVALUATED = 0.05
# A word of fewer sources is a mark.
SOURCES_MIN = 3
MARKS_MAX = 8
VOCABULARY = 2500
# Longer texts are rare, and are not trained on: each length takes a program.
TRAINED_TOKENS_MAX = 24
TOKENS_MAX = 36
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
    # Settings of generation.
    "no_repeat_ngram_size": 3,
}


@dataclass(frozen=True)
class Pair:
    """Synopses of a package, with the source of the package."""

    source: str
    english: str
    german: str


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--descriptions", required=True, type=Path, help="the folder of lib/corpora/descriptions.py")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--epochs", type=float, default=12)
    options = parser.parse_args()
    english, german = (descriptions.read(options.descriptions, language) for language in ("en", "de"))
    train, evaluated = pairs(english, german, descriptions.sources(options.descriptions))
    print(f"{len(train)} synopses to train on, {len(evaluated)} to evaluate")
    with tempfile.TemporaryDirectory(prefix="translation.") as scratch:
        scratch = Path(scratch)
        names = prepare(scratch, train, evaluated)
        start = time.monotonic()
        with service.Daemon(options.traind) as daemon:
            daemon.run(job(options, scratch), progress.show)
        minutes = (time.monotonic() - start) / 60
        written = predictions(scratch / "output" / "predictions.parquet")
    texts = [marks.restored(text, own) for text, own in zip(written, names, strict=True)]
    originals = [pair.english for pair in evaluated]
    for original, text in list(zip(originals, texts, strict=True))[:5]:
        print(f"{original} -> {text}")
    bleu, copying = score(texts, evaluated), score(originals, evaluated)
    nearest_one = score(nearest(train, originals), evaluated)
    print(f"BLEU {bleu:.1f} after {minutes:.1f} minutes; copying: {copying:.1f}; nearest synopsis: {nearest_one:.1f}")
    sys.exit(0 if bleu > copying else "not better than copying")


def pairs(english, german, sources):
    """Pairs to train on and to evaluate, each English synopsis once."""
    train, evaluated = {}, {}
    for checksum, translation in german.items():
        original = english.get(checksum)
        if original is None or original.synopsis == translation.synopsis:
            continue
        pair = Pair(sources.get(original.package, original.package), original.synopsis, translation.synopsis)
        split = evaluated if rows.is_held_out(pair.source, EVALUATED) else train
        split.setdefault(pair.english, pair)
    return list(train.values()), [pair for pair in evaluated.values() if pair.english not in train]


def predictions(file):
    # Neither this nor sacrebleu is in the environment of the tests of this file.
    import pyarrow.parquet

    return pyarrow.parquet.read_table(file)["prediction"].to_pylist()


def known_words(train):
    """English words that at least some sources have."""
    return marks.known_words(((pair.source, pair.english) for pair in train), SOURCES_MIN)


def names_of(text, known):
    return marks.names_of(text, known, MARKS_MAX)


def nearest(known, texts):
    """For each text, the translation of the known one that shares the largest part of the words of both with it."""
    known = [(words(pair.english), pair.german) for pair in known]

    def translation(text):
        own = words(text)
        return max(known, key=lambda pair: len(own & pair[0]) / len(own | pair[0]))[1]

    return [translation(text) for text in texts]


def words(text):
    return set(re.findall(r"\w+|[^\w\s]", text.lower()))


def score(texts, evaluated):
    """BLEU by sacrebleu's defaults, which are those of `eval_bleu`."""
    import sacrebleu

    return sacrebleu.corpus_bleu(texts, [[pair.german for pair in evaluated]]).score


def prepare(scratch, train, evaluated):
    """Writes the folder of the model, and the rows with marks. Returns the names in each that is evaluated."""
    known = known_words(train)
    rewritten = [marked_pair(pair, known) for pair in train]
    texts = (text for row in rewritten for text in row.values())
    tokenizer = small_models.write(scratch / "model", MODEL, texts, VOCABULARY)
    length = lambda row: max(len(tokenizer.encode(text)) for text in row.values())
    rows.write(scratch / "train.jsonl", (row for row in rewritten if length(row) <= TRAINED_TOKENS_MAX))
    rows.write(scratch / "test.jsonl", (marked_pair(pair, known) for pair in evaluated))
    return [names_of(pair.english, known) for pair in evaluated]


def marked_pair(pair, known):
    names = names_of(pair.english, known)
    return {"source": marks.marked(pair.english, names), "target": marks.marked(pair.german, names)}


def job(options, scratch):
    return {
        "name": "translation",
        "model": {"name_or_path": str(scratch / "model"), "task": "seq2seq-lm", "from_config": True},
        "data": {
            "train": str(scratch / "train.jsonl"),
            "test": str(scratch / "test.jsonl"),
            "max_source_length": TOKENS_MAX,
            "max_target_length": TOKENS_MAX,
            "pad_to_multiple_of": 12,
        },
        "train": {
            "num_train_epochs": options.epochs,
            "per_device_train_batch_size": 64 // options.cores,
            "per_device_eval_batch_size": 64,
            "learning_rate": 3e-3,
            "warmup_steps": 0.05,
            "lr_scheduler_type": "linear",
            "weight_decay": 0.01,
            "label_smoothing_factor": 0.1,
            "logging_steps": 100,
            "train_sampling_strategy": "group_by_length",
            "do_predict": True,
            "predict_with_generate": True,
            "generation_max_length": TOKENS_MAX,
            "generation_num_beams": 2,
            "save_strategy": "no",
        },
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(scratch / "output"),
    }


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    main()
