"""Fine-tunes MiniLM to find the descriptions of Debian's packages by their synopses, and compares it with the model as it
is: nDCG@10 of the packages of a hundredth of all sources, which are not trained on.

Packages of one source have descriptions with much in common, so that a source is either trained on or evaluated. With
--peer, SentenceTransformerTrainer trains the same model on the same rows, in their order, in the same time of day: its
samples in a second and its nDCG@10 stand beside. --seeds repeats both with other rows in another order, and compares the
means.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("lib", "lib/corpora")]

import descriptions
import rows

EVALUATED = 1 / 100
METRIC = "eval_cosine_ndcg@10"
CHARACTERS_MAX = 400
MAX_LENGTH = 64


def main():
    options = parser().parse_args()
    found = descriptions.read(options.descriptions, "en").values()
    train, evaluated = split(found, descriptions.sources(options.descriptions))
    results = [compared(options, seed, train, evaluated) for seed in range(options.seeds)]
    mean = lambda runs: statistics.fmean(run["after"] for run in runs)
    ours, theirs = zip(*results, strict=True)
    if options.seeds > 1:
        print(f"mean of {options.seeds} seeds: nDCG@10 {mean(ours):.4f}")
        if options.peer:
            print(f"sentence-transformers: {mean(theirs):.4f}")
    is_better = all(run["after"] > run["before"] for run in ours)
    sys.exit(0 if is_better else "no better than the model as it is")


def compared(options, seed, train, evaluated):
    """The results of both on the rows and in the order of a seed; no second one without a peer."""
    # The rows of the first seed are the same whatever the number of seeds.
    key = lambda row: rows.digest(f"{seed} {row['synopsis']}" if seed else row["synopsis"])
    train = sorted(train, key=key)[: options.rows]
    print(f"{len(train)} descriptions to train on, {len(evaluated)} to find", flush=True)
    with tempfile.TemporaryDirectory(prefix="search.") as scratch:
        scratch = Path(scratch)
        rows.write(scratch / "train.jsonl", train)
        rows.write(scratch / "dev.jsonl", evaluated)
        ours = trained(options, seed, scratch)
        theirs = peer(options, seed, scratch) if options.peer else None
    seconds, before, after = (ours[name] for name in ("seconds", "before", "after"))
    print(f"as it is: nDCG@10 {before:.4f}; after {seconds:.0f} s of training: {after:.4f}", flush=True)
    if theirs:
        print(f"sentence-transformers after {theirs['seconds']:.0f} s: {theirs['after']:.4f}")
        rates = [len(train) * options.epochs / it["seconds"] for it in (ours, theirs)]
        print(f"samples/s: {rates[0]:.1f} and {rates[1]:.1f}, {rates[0] / rates[1]:.2f} times as many", flush=True)
    return ours, theirs


def parser():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--model", required=True, type=Path, help="the folder of MiniLM")
    parser.add_argument("--descriptions", required=True, type=Path, help="the folder of lib/corpora/descriptions.py")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="runs, each with rows and an order of its own")
    parser.add_argument("--batch-size", type=int, default=64, help="rows of a step, on all cores together")
    parser.add_argument("--peer", help="an interpreter with sentence-transformers")
    return parser


def split(found, sources):
    """Rows to train on and to evaluate, each synopsis once."""
    train, evaluated = {}, {}
    for description in found:
        text = description.body.replace("\n", " ")[:CHARACTERS_MAX].strip()
        if not text:
            continue
        source = sources.get(description.package, description.package)
        part = evaluated if rows.is_held_out(source, EVALUATED) else train
        part.setdefault(description.synopsis, {"synopsis": description.synopsis, "description": text})
    return list(train.values()), [row for row in evaluated.values() if row["synopsis"] not in train]


def job(options, seed, scratch):
    return {
        "name": "search",
        "model": {"name_or_path": str(options.model), "task": "embedding"},
        "data": {
            "train": str(scratch / "train.jsonl"),
            "validation": str(scratch / "dev.jsonl"),
            "max_length": MAX_LENGTH,
        },
        "embedding": {"loss": "multiple_negatives_ranking"},
        "train": {
            "seed": 42 + seed,
            "num_train_epochs": options.epochs,
            "per_device_train_batch_size": options.batch_size // options.cores,
            "per_device_eval_batch_size": 64,
            "learning_rate": 5e-5,
            "warmup_steps": 0.1,
            "train_sampling_strategy": "sequential",
            "eval_strategy": "epoch",
            "eval_on_start": True,
            "save_strategy": "no",
            "logging_steps": 10,
        },
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(scratch / "output"),
    }


def trained(options, seed, scratch):
    """nDCG@10 before and after, and the seconds of all steps."""
    (scratch / "job.json").write_text(json.dumps(job(options, seed, scratch)))
    runner = options.traind.with_name("traind-runner")
    subprocess.run([runner, scratch / "job.json"], check=True, stdout=subprocess.DEVNULL)
    state = json.loads((scratch / "output" / "trainer_state.json").read_text())
    scores = [entry[METRIC] for entry in state["log_history"] if METRIC in entry]
    seconds = next(entry["train_runtime"] for entry in state["log_history"] if "train_runtime" in entry)
    # The time of training ends with its last step, and begins with the evaluation of the model as it is.
    first = next(entry["eval_runtime"] for entry in state["log_history"] if "eval_runtime" in entry)
    return {"before": scores[0], "after": scores[-1], "seconds": seconds - first}


def peer(options, seed, scratch):
    """The same by SentenceTransformerTrainer."""
    script = Path(__file__).with_name("search_peer.py")
    settings = job(options, seed, scratch) | {"batch_size": options.batch_size}
    (scratch / "peer.json").write_text(json.dumps(settings))
    environment = os.environ | {"OMP_NUM_THREADS": str(options.cores)}
    start = time.monotonic()
    found = subprocess.run(
        [options.peer, script, scratch / "peer.json"], check=True, stdout=subprocess.PIPE, env=environment
    )
    print(f"sentence-transformers ran for {time.monotonic() - start:.0f} s in all", flush=True)
    return json.loads(found.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
