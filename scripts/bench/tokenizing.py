"""Compares tokenizing with that of datasets, and the time to the first step with that of tokenized data.

Every side reads the same file, and each round makes new caches of tokens. Compiled programs stay in the cache. Rates are
those of a job that needs all lengths before its first step.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("lib", "lib/corpora")]

import peer_sides
import reviews
import service
import traind_side

CORES = 2
MAX_LENGTH = 128
# The rows of the smaller set with which memory is compared.
SMALLER = 4


def main():
    options = parse_options()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory(prefix="tokenizing.") as scratch:
        measured = measure(options, Path(scratch))
    print(table(measured))
    if options.out:
        options.out.write_text(json.dumps(measured, indent=1))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--plugins", required=True, type=Path, help="folder of installed plugins")
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--descriptions", required=True, type=Path, help="folder that descriptions.py fetched")
    parser.add_argument("--rows", type=int, default=1_200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the measurements of every round to this file as JSON")
    return parser.parse_args()


def measure(options, scratch):
    """{side: [measurements of each round]}; "smaller" is traind with a part of the rows."""
    small, large = scratch / "small.jsonl", scratch / "large.jsonl"
    texts = reviews.read(options.descriptions)
    languages = reviews.write(large, texts, options.rows)
    reviews.write(small, texts, options.rows // SMALLER)
    traind = Traind(options, scratch, languages)
    sides = {"traind": lambda: traind.round(large), "datasets": lambda: datasets(options, large, scratch)}
    # The first runs compile the programs.
    smaller = traind.round(small)
    traind.round(large)
    measured = {"smaller": [smaller], **{side: [] for side in sides}}
    for index in range(options.rounds):
        for side in list(sides)[:: -1 if index % 2 else 1]:
            measured[side].append(sides[side]())
            print(f"round {index + 1} {side}: {measured[side][-1]}", file=sys.stderr)
    check_tokens(measured)
    return measured


class Traind:
    """Jobs on one cache folder."""

    def __init__(self, options, scratch, languages):
        self.options, self.languages = options, languages
        self.cache, self.output = scratch / "cache", scratch / "output"
        self.cache.mkdir()
        (self.cache / "plugins").symlink_to(options.plugins)

    def round(self, file):
        """A job that begins before its rows are tokenized, one that tokenizes all, and the first with them in the cache."""
        self.remove_tokens()
        first = self.first_step(file)
        self.remove_tokens()
        tokenized = self.tokenize(file)
        return tokenized | {"first_step_seconds": first, "cached_first_step_seconds": self.first_step(file)}

    def remove_tokens(self):
        shutil.rmtree(self.cache / "tokens", ignore_errors=True)

    def first_step(self, file):
        """Seconds from the submission to the end of the first step of a long job, which is cancelled then."""
        with service.Daemon(self.options.traind, cache_dir=self.cache) as daemon:
            step, job = daemon.cancel_at(self.job(file, max_steps=100_000), "step")
        shutil.rmtree(self.output)
        return service.seconds(step.time) - service.seconds(job.create_time)

    def tokenize(self, file):
        memory = traind_side.Memory()

        def see(event):
            # Later the runner has its programs, too.
            if event.WhichOneof("kind") in ("started", "data_prepared"):
                memory.see(event)

        job = self.job(file, max_steps=2, train_sampling_strategy="group_by_length")
        with service.Daemon(self.options.traind, cache_dir=self.cache) as daemon:
            done = daemon.run(job, on_event=see)
        shutil.rmtree(self.output)
        _, data = done.of_kind("data_prepared")[0]
        return {
            "rows": data.rows,
            "tokens": data.tokens,
            "seconds": data.seconds,
            "memory_bytes_peak": memory.bytes_peak,
        }

    def job(self, file, **train):
        task = {"task": "sequence-classification", "num_labels": self.languages}
        return {
            "name": "tokenizing",
            "model": {"name_or_path": str(self.options.model), **task},
            "data": {"train": str(file), "text": "text", "label": "label", "max_length": MAX_LENGTH},
            "train": {"logging_steps": 1, "save_strategy": "no"} | train,
            "resources": {"platform": "cpu", "cores": CORES},
            "output_dir": str(self.output),
        }


def datasets(options, file, scratch):
    """Rows of the file through `datasets.map`, with one process per core."""
    out, cache = scratch / "measurements.json", scratch / "datasets"
    arguments = ["--model", options.model, "--file", file, "--processes", CORES, "--max-length", MAX_LENGTH]
    environment = os.environ | {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"}
    arguments += ["--out", out]
    peer_sides.program(options.peers_python, "datasets_map.py", *arguments, env=environment)
    shutil.rmtree(cache)
    return json.loads(out.read_text())


def check_tokens(measured):
    """Exits if the sides have different tokens."""
    counts = {side: measured[side][0]["tokens"] for side in ("traind", "datasets")}
    if len(set(counts.values())) > 1:
        sys.exit(f"the sides have different numbers of tokens: {counts}")


def table(measured):
    middle = lambda side, name: median(run[name] for run in measured[side])
    rows, smaller = measured["traind"][0]["rows"], measured["smaller"][0]
    whole = rows / middle("datasets", "seconds")
    mapped = rows / middle("datasets", "map_seconds")
    speed = rows / middle("traind", "seconds")
    first, cached = (middle("traind", f"{name}first_step_seconds") for name in ("", "cached_"))
    more = middle("traind", "memory_bytes_peak") - smaller["memory_bytes_peak"]
    return "\n".join(
        [
            f"{rows} rows of {measured['traind'][0]['tokens'] / rows:.1f} tokens, {CORES} cores",
            f"{'':24} {'rows/s':>9} {'traind / it':>12}",
            f"{'traind, file to cache':24} {speed:9.0f}",
            f"{'datasets, file to cache':24} {whole:9.0f} {speed / whole:11.2f}x",
            f"{'datasets, map alone':24} {mapped:9.0f} {speed / mapped:11.2f}x",
            f"submission to first step: {first:.2f} s, {cached:.2f} s with tokens in the cache ({first / cached:.2f}x)",
            f"peak memory when tokenized: {middle('traind', 'memory_bytes_peak') / 2**20:.0f} MiB, "
            f"{more / (rows - smaller['rows']):.1f} bytes for each row more than {smaller['rows']}",
        ]
    )


if __name__ == "__main__":
    try:
        main()
    except service.JobFailed as failure:
        sys.exit(f"the job did not complete: {failure}")
