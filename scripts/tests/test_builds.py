"""Differences between the runs of two builds."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "compare"))

import builds

LOG = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5}]
TENSORS = {("model.safetensors", name): name.encode() for name in ("a", "b")}


def run(log=LOG, tensors=TENSORS):
    return builds.Trained(log, tensors, 0.1)


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


if __name__ == "__main__":
    unittest.main()
