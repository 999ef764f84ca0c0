"""Continues a checkpoint of each mesh on each mesh. Losses and weights must be those of one core, to rounding.

Runs the runner without a daemon, as the soak test of checkpoints does.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from checkpoints import Run, write_inputs

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import tensors

STEPS = 12
SAVED = 6
# Rows of a step.
BATCH = 8
# Relative.
LOSS_LIMIT = 1e-4
# Limit of differences, as a share of the largest weight.
WEIGHT_LIMIT = 1e-4
MESHES = {
    "one": {},
    "D4": {"data": 4},
    "T2": {"tensor": 2, "sequence_parallel": True},
    "P2": {"pipeline": 2},
    "D2-T2-P2": {"data": 2, "tensor": 2, "pipeline": 2, "fsdp": "shard_optimizer"},
    "FSDP4": {"data": 4, "fsdp": "full_shard"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["runner", "plugin", "model"]:
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="traind-soak-") as folder:
        folder = Path(folder)
        write_inputs(folder, arguments.model)
        saved = {name: train(arguments, folder, name, mesh) for name, mesh in MESHES.items()}
        whole = result(saved["one"])
        bad = 0
        print("from \\ to " + "".join(f"{name:>12}" for name in MESHES), flush=True)
        for source, run in saved.items():
            checkpoint = run.folder / "out" / f"checkpoint-{SAVED}"
            cells = []
            for target, mesh in MESHES.items():
                resumed = train(
                    arguments, folder, f"{source}-to-{target}", mesh, resume_from_checkpoint=str(checkpoint)
                )
                cells.append(distance(whole, result(resumed)))
            bad += sum(cell > 1 for cell in cells)
            print(f"{source:<10}" + "".join(f"{cell:>12.3f}" for cell in cells), flush=True)
    print(f"(largest difference in losses and weights over its limit, {LOSS_LIMIT}): {bad} bad")
    sys.exit(1 if bad else 0)


def train(arguments, folder, name, mesh, **more):
    keys = {
        "max_steps": STEPS,
        "save_steps": SAVED,
        "logging_steps": 1,
        "per_device_train_batch_size": BATCH // mesh.get("data", 1),
        "gradient_accumulation_steps": 1,
        # Some gradients are rounding noise, of which Adam would make full steps.
        "adam_epsilon": 1e-4,
        "train_sampling_strategy": "random",
        **more,
    }
    run = Run(arguments, folder, name, keys, mesh)
    run.end(check=True)
    return run


def result(run):
    """The loss of each step after the checkpoint, and all weights."""
    out = run.folder / "out"
    history = json.loads((out / "trainer_state.json").read_text())["log_history"]
    losses = [entry["loss"] for entry in history if "loss" in entry and entry["step"] > SAVED]
    return losses, tensors.floats(out / "model.safetensors")


def distance(one, other):
    """The largest difference over its limit; infinite where steps or weights are missing."""
    if len(one[0]) != len(other[0]) or set(one[1]) != set(other[1]):
        return float("inf")
    loss = max(abs(b / a - 1) for a, b in zip(one[0], other[0], strict=True)) / LOSS_LIMIT
    largest = max(abs(value) for values in one[1].values() for value in values)
    pairs = ((one[1][name], other[1][name]) for name in one[1])
    weight = max(abs(a - b) for expect, found in pairs for a, b in zip(expect, found, strict=True))
    return max(loss, weight / largest / WEIGHT_LIMIT)


if __name__ == "__main__":
    main()
