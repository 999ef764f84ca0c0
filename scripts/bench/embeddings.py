"""Trains MiniLM on the rows of scripts/examples/search.py with traind and with SentenceTransformerTrainer in turns, by
`multiple_negatives_ranking`.

Both take the same rows in the same order, cut to as many tokens, in float32 on two cores. `pairs` are batches of 64 rows,
timed behind the first steps. `cached` is one batch of 4,096 rows in parts of 64: on each of traind's cores, and in all
of sentence-transformers. Its parts are the batches of a step that accumulates as many rows: these pass forward and backward
once, a cached batch forward once more, which is a third of the operations of both.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("lib", "lib/corpora", "examples")]

import search

import descriptions
import machine
import peer_sides
import report
import rounds
import rows
import service
import traind_side

CORES = 2
WARM_UP_STEPS = 10
LEARNING_RATE = 5e-5
# Operations of a cached batch beside those of one that passes once.
CACHED_PASSES = 4 / 3
TABLE = rounds.Table(8, 22, (rounds.Column("batch_seconds", "s/batch", 9, 2),))


@dataclass(frozen=True)
class Work:
    """`batch` is on all cores, `part` the rows that pass through the model at a time on each; none: the whole batch."""

    name: str
    sides: tuple
    batch: int
    steps: int
    part: int | None = None

    def warm_up_steps(self):
        """The steps that are not timed. A batch of minutes is timed from its beginning."""
        return min(WARM_UP_STEPS, self.steps - 1)


def main():
    options = parse_options()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    print(machine.description(), flush=True)
    works = [
        Work("pairs", ("traind", "sentence-transformers"), 64, options.steps),
        Work("cached", ("traind", "parts", "sentence-transformers"), options.rows, 1, 64),
    ]
    results = {}
    print(TABLE.header(), flush=True)
    for work in works:
        if options.work in (work.name, None):
            results[work.name] = bench(options, work)
    if options.out:
        options.out.write_text(json.dumps({"machine": machine.description()} | results, indent=1))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True, help="an interpreter with sentence-transformers")
    parser.add_argument("--model", required=True, type=Path, help="the folder of MiniLM")
    parser.add_argument("--descriptions", required=True, type=Path, help="the folder of lib/corpora/descriptions.py")
    parser.add_argument("--work", choices=["pairs", "cached"], help="both by default")
    parser.add_argument("--sides", help="of traind, parts and sentence-transformers, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30, help="steps of pairs")
    parser.add_argument("--rows", type=int, default=4096, help="rows of the cached batch")
    parser.add_argument("--max-length", type=int, default=search.MAX_LENGTH, help="the most tokens of a text")
    parser.add_argument("--out", type=Path, help="write the measurements of every run to this file as JSON")
    options = parser.parse_args()
    options.sides = set(options.sides.split(",")) if options.sides else set(SIDES)
    if unknown := options.sides - set(SIDES):
        parser.error(f"no such side: {', '.join(unknown)}")
    return options


def bench(options, work):
    """Prints and returns {side: [measurements of each round]}."""
    with tempfile.TemporaryDirectory(prefix="bench.") as scratch:
        scratch = Path(scratch)
        train, _ = search.split(
            descriptions.read(options.descriptions, "en").values(), descriptions.sources(options.descriptions)
        )
        train.sort(key=lambda row: rows.digest(row["synopsis"]))
        rows.write(scratch / "train.jsonl", train[: work.batch * work.steps])
        sides = [side for side in work.sides if side in options.sides]
        measure = lambda side: measurements(work, SIDES[side](options, work, scratch))
        results = rounds.alternate(sides, options.rounds, measure)
    print(table(work.name, results), flush=True)
    return results


def measurements(work, ended):
    """`ended` has pairs of a number of steps and the time at which they ended, from 0 on."""
    times = dict(ended)
    first, last = work.warm_up_steps(), work.steps
    seconds = (times[last] - times[first]) / (last - first)
    return {"samples_per_second": work.batch / seconds, "batch_seconds": seconds}


def traind(options, work, scratch):
    return trained(options, job(options, work, scratch))


def parts(options, work, scratch):
    """A step that accumulates the parts of a cached batch, each compared by itself."""
    settings = job(options, work, scratch)
    del settings["embedding"]["mini_batch_size"]
    per_core = settings["train"]["per_device_train_batch_size"]
    settings["train"]["per_device_train_batch_size"] = work.part
    settings["train"]["gradient_accumulation_steps"] = per_core // work.part
    ended = trained(options, settings)
    return [(step, time * CACHED_PASSES) for step, time in ended]


def trained(options, settings):
    with service.Daemon(options.traind) as daemon:
        done = daemon.run(settings)
    steps = [(message.step, time) for time, message in done.of_kind("step")]
    first = steps[0][1]
    prepared = (time for kind in traind_side.PREPARATIONS for time, _ in done.of_kind(kind) if time < first)
    return [(0, max(*prepared, done.of_kind("compiled")[0][0])), *steps]


def job(options, work, scratch):
    part = {"mini_batch_size": work.part} if work.part else {}
    return {
        "name": "bench",
        "model": {"name_or_path": str(options.model), "task": "embedding"},
        "data": {"train": str(scratch / "train.jsonl"), "max_length": options.max_length},
        "embedding": {"loss": "multiple_negatives_ranking", **part},
        "train": {
            "max_steps": work.steps,
            "per_device_train_batch_size": work.batch // CORES,
            "learning_rate": LEARNING_RATE,
            "train_sampling_strategy": "sequential",
            "logging_steps": 1,
            "save_strategy": "no",
        },
        "resources": {"platform": "cpu", "cores": CORES},
        # CPU cores share memory, where two complete optimizers double the traffic.
        "parallel": {"shard_optimizer_state": True},
        "output_dir": str(scratch / "output"),
    }


def sentence_transformers(options, work, scratch):
    description = {
        "model": str(options.model), "rows": str(scratch / "train.jsonl"), "length": options.max_length,
        "batch": work.batch, "mini_batch": work.part, "steps": work.steps, "learning_rate": LEARNING_RATE,
        "threads": CORES,
    }  # fmt: skip
    file, out = scratch / "work.json", scratch / "speed.json"
    file.write_text(json.dumps(description))
    peer_sides.program(options.peers_python, "speed_embeddings.py", file, out)
    return [tuple(end) for end in json.loads(out.read_text())]


SIDES = {"traind": traind, "parts": parts, "sentence-transformers": sentence_transformers}


def table(name, results):
    lines = TABLE.lines(name, results)
    if {"traind", "parts"} <= set(results):
        seconds = lambda side: median(report.measurements(results[side], "batch_seconds"))
        lines.append(f"{name:8} a batch takes {seconds('traind') / seconds('parts'):.2f} times as long as its parts")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        main()
    except service.JobFailed as failure:
        sys.exit(f"the job did not complete: {failure}")
