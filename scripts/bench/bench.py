"""Runs the same fine-tuning job on every side in turn, and prints medians, ratios and a breakdown of traind's time.

The machine's speed drifts, so a side is compared with the others of its round, and the order turns each round.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import machine
import memory
import peer_sides
import report
import saving
import service
import startup
import traind_side

CORES = 2
SIDES = {
    "traind": traind_side.run,
    "traind-cold": traind_side.run_cold,
    "traind-bf16": traind_side.run_bf16,
    "trainer": peer_sides.trainer,
    "trainer-grouped": peer_sides.trainer_grouped,
    "trainer-grouped-compiled": peer_sides.trainer_grouped_compiled,
    "trainer-grouped-bf16": peer_sides.trainer_grouped_bf16,
    "jax": peer_sides.jax,
    "jax-grouped": peer_sides.jax_grouped,
}
# Those that classify texts.
FAMILIES = [
    "bert",
    "distilbert",
    "roberta",
    "xlm-roberta",
    "gpt2",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma",
    "phi3",
]
ALL = "all"
# The JAX side implements BERT only.
FAMILY_SIDES = ["traind", "trainer", "trainer-grouped"]
# Compiled steps of PyTorch take minutes before the first one.
DEFAULT_SIDES = ["traind", "traind-cold", "trainer", "trainer-grouped", "jax", "jax-grouped"]


@dataclass(frozen=True)
class Work:
    """The options that all sides share."""

    model: Path
    train: Path
    validation: Path
    labels: int
    rows: int
    epochs: int
    batch: int = 32
    learning_rate: float = 1e-4


def main():
    options = parse_options()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    print(machine.description(), flush=True)
    with tempfile.TemporaryDirectory(prefix="bench.") as scratch:
        bench(options, Path(scratch))


def bench(options, scratch):
    if options.family == ALL:
        compare_families(options, scratch)
        return
    work = work_of(options, small_model(options, options.family, scratch) if options.family else options.model)
    results = alternate(options, work, scratch)
    print(report.sides(results))
    if "traind" in results:
        print(report.step_time(results["traind"]))
        print(report.saving(saving.measure(options, work, scratch)))
        print(report.memory(memory.measure(options, work, scratch)))
        print(report.startup(startup.measure(options, work, scratch)))
    write(options, results)


def compare_families(options, scratch):
    """The sides of a small model of each family."""
    results = {}
    for family in FAMILIES:
        model = small_model(options, family, scratch / family)
        results[family] = alternate(options, work_of(options, model), scratch / family)
        print(f"\n{family}\n{report.sides(results[family])}", flush=True)
    write(options, results)


def write(options, results):
    if options.out:
        options.out.write_text(json.dumps({"machine": machine.description()} | results, indent=1))


def work_of(options, model):
    return Work(
        model=model,
        train=options.data / "train.parquet",
        validation=options.data / "validation.csv",
        labels=len(json.loads((options.data / "labels.json").read_text())),
        rows=options.rows,
        epochs=options.epochs,
    )


def small_model(options, family, scratch):
    """A randomly initialized model of the family with MiniLM's shape."""
    out = scratch / "model"
    arguments = [family, "sequence-classification", options.model, out, "small"]
    peer_sides.program(options.peers_python, "random_model.py", *arguments)
    return out


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--plugins", required=True, type=Path, help="folder of installed plugins")
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--jax-python", required=True)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--rows", required=True, type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--sides", type=parse_sides, help=f"of {', '.join(SIDES)}")
    parser.add_argument(
        "--family", choices=[*FAMILIES, ALL], help="a small model with random weights, not the one of --model"
    )
    parser.add_argument("--out", type=Path, help="write the measurements of every run to this file as JSON")
    options = parser.parse_args()
    options.sides = options.sides or (FAMILY_SIDES if options.family else DEFAULT_SIDES)
    return options


def parse_sides(text):
    sides = text.split(",")
    unknown = [side for side in sides if side not in SIDES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(SIDES)}")
    return sides


def alternate(options, work, scratch):
    """{side: [measurements of each round]}"""
    results = {side: [] for side in options.sides}
    for index in range(options.rounds):
        turn = index % len(options.sides)
        for side in options.sides[turn:] + options.sides[:turn]:
            measurements = SIDES[side](options, work, scratch)
            results[side].append(measurements)
            print(
                f"round {index + 1} {side}: {measurements['samples_per_second']:.1f} samples/s, "
                f"accuracy {measurements['accuracy']:.4f}",
                file=sys.stderr,
            )
    return results


if __name__ == "__main__":
    try:
        main()
    except service.JobFailed as failure:
        sys.exit(f"the job did not complete: {failure}")
