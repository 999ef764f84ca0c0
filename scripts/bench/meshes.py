"""Measures the samples a second of one job on several meshes of CPU cores, beside data parallelism.

All meshes train the same model on the same global batch, in turns, so that a machine whose speed changes does not favour
one of them.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import planner
import service

LENGTH = 128
MODEL = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 4}
PEER = "data"
# `True` stands for the cores of the job.
MESHES = {
    PEER: {},
    "shard_optimizer": {"fsdp": "shard_optimizer"},
    "full_shard": {"fsdp": "full_shard"},
    "tensor": {"tensor": True},
    "tensor, sequence_parallel": {"tensor": True, "sequence_parallel": True},
    "pipeline of 8 micro-batches": {"pipeline": True, "microbatches": 8},
    "the pipeline, interleaved": {"pipeline": True, "pipeline_interleave": 2, "microbatches": 8},
}


def main():
    options = parse_options()
    meshes = {name: MESHES[name] for name in [PEER, *options.only]} if options.only else MESHES
    seconds = {name: [] for name in meshes}
    with service.Daemon(options.traind, cores=options.cores) as daemon:
        for _ in range(options.rounds):
            for name, parallel in meshes.items():
                with tempfile.TemporaryDirectory() as output:
                    seconds[name].append(planner.step_seconds(daemon, job(options, parallel, output)))
    print(table(options.rows, {name: median(taken) for name, taken in seconds.items()}))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traind", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rows", type=int, default=32, help="of the global batch")
    parser.add_argument("--only", nargs="+", choices=[name for name in MESHES if name != PEER], help="beside data")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    return parser.parse_args()


def job(options, parallel, output):
    divided = {"tensor", "pipeline"} & parallel.keys()
    parallel = {**parallel, **dict.fromkeys(divided, options.cores)}
    described = planner.job(options, output)
    model = {**described["model"], "from_config": True, "config_overrides": MODEL}
    rows = options.rows if divided else options.rows // options.cores
    train = {**described["train"], "per_device_train_batch_size": rows}
    return {**described, "model": model, "train": train, "parallel": parallel}


def table(rows, seconds):
    """A line for each mesh, with its speed over that of data parallelism."""
    lines = [f"{'mesh':30}{'s/step':>8}{'samples/s':>11}{'ratio':>7}"]
    for name, taken in seconds.items():
        lines.append(f"{name:30}{taken:8.3f}{rows / taken:11.2f}{seconds[PEER] / taken:7.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
