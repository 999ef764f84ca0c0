"""The Python package against the daemon on TRAIND_SOCKET, in a folder with job.yaml and what it names."""

import asyncio
import json
import unittest
from pathlib import Path

import traind
import traind.aio

STEPS = 16


class Package(unittest.TestCase):
    def setUp(self):
        self.client = traind.Client()
        self.addCleanup(self.client.close)

    def test_a_job_completes_with_the_metrics_of_its_output_folder(self):
        job = self.client.submit("job.yaml", overrides={"name": "whole", "output_dir": "out-whole"})
        self.assertIn(job.state, ("pending", "starting", "running"))
        job.wait(timeout=120)
        self.assertEqual(job.state, "completed")
        self.assertGreater(job.final_metrics["eval_accuracy"], 0.3)
        metrics = job.metrics()
        self.assertEqual([step for step, _ in metrics.series("loss")], list(range(1, STEPS + 1)))
        state = json.loads((Path(job.output_dir) / "trainer_state.json").read_text())
        saved = [entry["loss"] for entry in state["log_history"] if "loss" in entry]
        for (_, loss), expected in zip(metrics.series("loss"), saved):
            self.assertAlmostEqual(loss, expected, places=5)
        # Without the time, since a line about a program says whether a step waited for it.
        texts = [line.split(" ", 1)[1] for line in job.logs()]
        self.assertEqual(len([text for text in texts if text.startswith("step ")]), STEPS)
        self.assertEqual(len([text for text in texts if f" at step {STEPS}: " in text]), 1)
        self.assertEqual(self.client.job("whole").id, job.id)
        self.assertEqual(len(job.samples(1)), 8)
        self.assertEqual(self.client.job(job.id).job_file, Path("job.yaml").read_text())

    def test_a_mapping_is_refused_with_each_violation(self):
        wrong = {"name": "x", "train": {"learning_rat": 1}, "resources": {"cores": "many"}}
        with self.assertRaises(traind.JobFileInvalid) as caught:
            self.client.submit(wrong)
        fields = {violation.field for violation in caught.exception.violations}
        self.assertLessEqual({"train.learning_rat", "resources.cores", "output_dir", "model.task"}, fields)

    def test_an_endless_job_is_cancelled(self):
        job = self.client.submit("job.yaml", overrides={"train.max_steps": 1_000_000, "output_dir": "out-endless"})
        with self.assertRaises(TimeoutError):
            job.wait(timeout=0.1)
        for event in job.events():
            if event.kind == "step" and event.data["step"] == 5:
                held = [core.job_id for core in self.client.cores() if core.job_id]
                self.assertIn(job.id, held)
                job.cancel()
        with self.assertRaises(traind.JobCancelled):
            job.wait()
        self.assertIn(job.id, [found.id for found in self.client.jobs(states=["cancelled"])])

    def test_an_estimator_trains_the_weights_of_the_job_file(self):
        job = self.client.submit("job.yaml", overrides={"output_dir": "out-file"}).wait()
        estimator = traind.HuggingFace(
            model=Path("model"),
            task="sequence-classification",
            hyperparameters={
                "epochs": 2,
                "train_batch_size": "8",
                "learning_rate": "5e-3",
                "logging_steps": 1,
                "data.label_map": ["animal", "fruit", "tool"],
            },
            instance_type="local",
            output_path="models",
        )
        estimator.fit({"train": "train.csv", "test": "validation.parquet"})
        weights = [Path(folder) / "model.safetensors" for folder in (job.output_dir, estimator.model_data)]
        self.assertEqual(weights[0].read_bytes(), weights[1].read_bytes())

    def test_a_plan_counts_parameters(self):
        self.assertGreater(self.client.plan("job.yaml")["parameters"], 1000)

    def test_a_job_completes_for_asyncio(self):
        async def story():
            async with traind.aio.Client() as client:
                job = await client.submit("job.yaml", overrides={"output_dir": "out-async"})
                steps = [event.data["step"] async for event in job.events() if event.kind == "step"]
                await job.refresh()
                return job.state, steps

        self.assertEqual(asyncio.run(story()), ("completed", list(range(1, STEPS + 1))))


if __name__ == "__main__":
    unittest.main()
