"""The verdict on two log histories."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import steps


def history(*losses):
    return [
        {"step": step, "loss": loss, "learning_rate": 1e-4, "grad_norm": 1.0} for step, loss in enumerate(losses, 1)
    ]


def complaints(reference, ours, count=2):
    return steps.complaints(steps.pair(reference, ours), count)


class Verdict(unittest.TestCase):
    def test_rounding_is_accepted(self):
        self.assertEqual(complaints(history(3.0, 2.0), history(3.00001, 2.001)), [])

    def test_the_first_step_is_held_to_more(self):
        found = complaints(history(3.0, 2.0), history(3.001, 2.001))
        self.assertEqual(len(found), 1)
        self.assertIn("step 1: loss", found[0])

    def test_a_later_step_may_not_drift(self):
        self.assertIn("step 2: loss", complaints(history(3.0, 2.0), history(3.0, 2.01))[0])

    def test_nan_is_a_difference(self):
        self.assertEqual(len(complaints(history(3.0, 2.0), history(3.0, float("nan")))), 1)

    def test_a_missing_step_is_a_difference(self):
        self.assertIn("step 2: loss nan", complaints(history(3.0, 2.0), history(3.0))[0])

    def test_too_few_steps_on_both_sides(self):
        self.assertEqual(complaints(history(3.0), history(3.0)), ["1 steps were logged, not 2"])

    def test_entries_without_a_loss_are_no_steps(self):
        summary = [{"step": 2, "train_runtime": 1.0, "train_loss": 2.5}]
        self.assertEqual(complaints(history(3.0, 2.0) + summary, history(3.0, 2.0)), [])


if __name__ == "__main__":
    unittest.main()
