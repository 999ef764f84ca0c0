"""Trains a real BERT in float32, bfloat16 and float16 on the same batches, and prints how far the losses are from those of
float32, and how float16's losses were scaled. Weights are float32 in all of them.

Exits with 1 where a loss is farther than LIMIT from float32's, or is no number.
"""

import math
import sys
import tempfile
from pathlib import Path

import both
import real_model

import steps  # found by both

# Relative.
LIMIT = 0.02
MODES = {"float32": {}, "bf16": {"bf16": True}, "fp16": {"fp16": True}}


def main():
    parser = real_model.parser(__doc__, steps=50, batch=16)
    parser.add_argument("--trainer", action="store_true", help="also the Trainer, in float32 and bfloat16")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        model = scratch / "model"
        real_model.save(options, model)
        losses, scales = {}, []
        for mode, settings in MODES.items():
            run = real_model.run_traind(options, f"precision-{mode}", model, scratch / mode, **settings)
            losses[mode] = losses_of(run.trainer_state()["log_history"])
            scales += [f"{mode}: {line}" for line in scale_lines(run)]
        if options.trainer:
            for mode, more in {"float32": [], "bf16": ["--bf16"]}.items():
                history = real_model.run_trainer(options, model, scratch / "trainer.json", *more)
                losses[f"Trainer {mode}"] = losses_of(history)
    print(table(losses))
    print("\n".join(scales) or "no loss scale ever changed")
    far = {mode: report(mode, losses["float32"], losses[mode]) for mode in ["bf16", "fp16"]}
    if options.trainer:
        report("Trainer bf16", losses["Trainer float32"], losses["Trainer bf16"])
    whole = all(len(found) == options.steps for found in losses.values())
    # Written so that a NaN, which compares false with all, fails.
    sys.exit(0 if whole and all(difference <= LIMIT for difference in far.values()) else 1)


def losses_of(history):
    return {step: entry["loss"] for step, entry in steps.by_step(history).items()}


def scale_lines(run):
    for _, scaled in run.of_kind("loss_scaled"):
        yield f"after step {scaled.step} losses are multiplied with {scaled.scale:g}, {scaled.skipped_steps} steps skipped"


def report(mode, reference, losses):
    """Prints and returns the largest relative difference; a NaN counts as the largest."""
    differences = {step: steps.difference(loss, losses.get(step, math.nan)) for step, loss in reference.items()}
    step = max(differences, key=lambda step: (math.isnan(differences[step]), differences[step]))
    mean = sum(differences.values()) / len(differences)
    print(f"{mode}: at most {differences[step]:.2%} from its float32, at step {step}; in the mean {mean:.2%}")
    return differences[step]


def table(losses):
    lines = ["step " + " ".join(f"{name:>16}" for name in losses)]
    for step in losses["float32"]:
        lines.append(f"{step:4} " + " ".join(f"{found.get(step, math.nan):16.6f}" for found in losses.values()))
    return "\n".join(lines)


if __name__ == "__main__":
    both.run(main)
