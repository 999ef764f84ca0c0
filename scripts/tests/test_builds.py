"""Differences between the runs of two builds."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "compare"))

import builds

LOG = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5}]
TENSORS = {("model.safetensors", name): name.encode() for name in ("a", "b")}


def run(log=LOG, tensors=TENSORS):
    return builds.Trained(log, tensors, 0.1, 0.2)


class Differences(unittest.TestCase):
    def check(self, changed, expect):
        runs = {"before": [run(), run()], "after": [run(), changed]}
        self.assertEqual(builds.different_bits(runs), expect)

    def test_equal_runs_have_none(self):
        self.check(run(), [])

    def test_a_loss_is_named_by_its_step(self):
        self.check(run(log=[LOG[0], {"step": 2, "loss": 1.5000001}]), ["losses from step 2 on"])
        self.check(run(log=LOG[:1]), ["numbers of steps"])

    def test_tensors_are_counted(self):
        name = ("model.safetensors", "b")
        self.check(run(tensors=TENSORS | {name: b"c"}), ["1 of 2 tensors"])
        fewer = {key: value for key, value in TENSORS.items() if key != name}
        self.check(run(tensors=fewer), ["names of tensors", "1 of 2 tensors"])

    def test_a_build_that_is_not_the_same_twice_differs(self):
        runs = {"before": [run(), run(log=LOG[:1])], "after": [run(), run()]}
        self.assertEqual(builds.different_bits(runs), ["numbers of steps"])

    def test_times_are_medians_and_ratios_those_of_rounds(self):
        trained = lambda seconds: [builds.Trained(LOG, TENSORS, taken, 1.0) for taken in seconds]
        runs = {"before": trained([0.1, 0.2, 0.4]), "after": trained([0.1, 0.3, 0.4])}
        self.assertEqual(builds.times(runs, "step_seconds"), (["200.00", "300.00"], 1.0))

    def test_processor_time_is_that_between_the_first_and_the_last_reading(self):
        meter = builds.Meter(daemon=None)
        meter.readings = [(5, 1.0), (6, 1.3), (9, 2.0)]
        self.assertEqual(meter.step_seconds(), 0.25)


if __name__ == "__main__":
    unittest.main()
