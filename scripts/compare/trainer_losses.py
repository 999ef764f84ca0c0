"""Follows Hugging Face's Trainer step by step: losses, learning rates and gradient norms, with a verdict.

Dropout is off and rows come in file order, so both compute the same numbers but for float32 rounding.
Exits with 1 where they differ by more than LIMIT_FIRST at the first step or LIMIT later.
"""

import sys
import tempfile
from pathlib import Path

import both
import real_model

import steps  # found by both


def main():
    options = real_model.parser(__doc__, steps=20, batch=32).parse_args()
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        model = scratch / "model"
        real_model.save(options, model)
        reference = real_model.run_trainer(options, model, scratch / "trainer.json")
        ours = real_model.run_traind(options, "trainer-losses", model, scratch / "output")
        rows = steps.pair(reference, ours.trainer_state()["log_history"])
    print(steps.table(rows))
    complaints = steps.complaints(rows, options.steps)
    print("\n".join(complaints) or f"equal over {len(rows)} steps: first to {steps.LIMIT_FIRST}, all to {steps.LIMIT}")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    both.run(main)
