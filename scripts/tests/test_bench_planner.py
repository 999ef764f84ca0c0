"""The comparison of predicted and measured step times."""

import sys
import unittest
from pathlib import Path

for folder in ("lib", "bench"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

import planner
import service


def mesh(step_seconds, **settings):
    given = {"data": 4, "tensor": 1, "pipeline": 1, "pipeline_interleave": 1, "fsdp": "no", "fits": True}
    return service.jobs.MeshPlan(step_seconds=step_seconds, **(given | settings))


class Planner(unittest.TestCase):
    def test_orders_and_ratios_stand_beside_each_other(self):
        meshes = [mesh(1.0), mesh(2.0, data=2, tensor=2, sequence_parallel=True), mesh(3.0, fsdp="full_shard")]
        lines = planner.table(meshes, [2.0, 1.9, 3.0]).splitlines()
        self.assertEqual([line.split()[:2] for line in lines[1:4]], [["1", "2"], ["2", "1"], ["3", "3"]])
        self.assertEqual([line.split()[-1] for line in lines[1:4]], ["0.50", "1.05", "1.00"])
        self.assertIn("2 x 2 x 1, positions", lines[2])
        self.assertEqual(
            lines[4:], ["the measured best is the planner's number 2", "2 of 3 predictions are within 25 %"]
        )

    def test_meshes_are_taken_from_the_whole_order(self):
        meshes = [mesh(float(place)) for place in range(15)] + [mesh(0.5, fits=False)]
        self.assertEqual([it.step_seconds for it in planner.chosen(meshes, 8)], [0, 2, 4, 6, 8, 10, 12, 14])
        self.assertEqual(len(planner.chosen(meshes[:3], 8)), 3)

    def test_steps_that_wait_for_programs_do_not_count(self):
        self.assertEqual(planner.seconds_per_step([10, 40, 41, 43, 44]), 1)

    def test_a_job_takes_the_settings_of_a_mesh(self):
        stages = mesh(
            1.0, data=1, pipeline=4, microbatches=8, per_device_train_batch_size=32, gradient_accumulation_steps=1
        )
        found = planner.on_mesh({"name": "a", "train": {"max_steps": 3}}, stages, Path("out"))
        self.assertEqual(found["parallel"]["microbatches"], 8)
        self.assertEqual((found["train"]["max_steps"], found["train"]["per_device_train_batch_size"]), (3, 32))
        self.assertNotIn("microbatches", planner.on_mesh({"train": {}}, mesh(1.0), Path("out"))["parallel"])


if __name__ == "__main__":
    unittest.main()
