"""traind's measurements in the benchmark, from a job's events."""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

for folder in ("lib", "bench"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

import efficiency
import machine
import report
import rounds
import service
import shapes
import startup
import traind_side

events = service.events


def event(second, **kind):
    made = events.Event(**kind)
    made.time.seconds = second
    return made


def compiled(second, ahead=True):
    return event(second, compiled=events.Compiled(ahead=ahead))


def step(second, number, dispatch, compute):
    time = events.StepTime(dispatch_seconds=dispatch, compute_seconds=compute)
    return event(second, step=events.Step(step=number, time=time))


def evaluated(second, seconds, accuracy):
    return event(second, evaluated=events.Evaluated(seconds=seconds, metrics={"eval_accuracy": accuracy}))


def finished_run():
    """Two epochs of 10 s each, an evaluation of 3 s after each, ready to train at 105."""
    history = [
        event(101, started=events.Started()),
        compiled(105),
        step(110, 10, dispatch=1, compute=2),
        compiled(112, ahead=False),
        evaluated(118, 3, 0.5),
        step(127, 20, dispatch=3, compute=4),
        evaluated(131, 3, 0.75),
    ]
    job = SimpleNamespace(create_time=SimpleNamespace(seconds=100, nanos=0))
    return service.Run(job, history)


CPUINFO = """processor\t: 0
cpu family\t: 25
model\t\t: 97
model name\t: AMD EPYC 4344P
flags\t\t: fpu avx2 fma avx512f avx512_bf16

processor\t: 1
model name\t: another
"""


class Machine(unittest.TestCase):
    def test_names_the_processor_and_what_kernels_choose_by(self):
        described = machine.description(CPUINFO)
        self.assertTrue(described.startswith("AMD EPYC 4344P (cpu family 25, model 97, "), described)
        self.assertTrue(described.endswith("processors): avx2 fma avx512f avx512_bf16"), described)

    def test_names_an_arm_processor_by_its_numbers(self):
        described = machine.description("CPU implementer : 0x41\nCPU part : 0xd40\nFeatures : fp asimd bf16\n")
        self.assertTrue(described.startswith("processor 0x41/0xd40 ("), described)
        self.assertTrue(described.endswith(": asimd bf16"), described)


class Figures(unittest.TestCase):
    def setUp(self):
        self.measurements = traind_side.measurements(finished_run(), SimpleNamespace(rows=100, epochs=2))

    def test_training_is_timed_without_preparation_and_evaluation(self):
        self.assertAlmostEqual(self.measurements["train_seconds"], 131 - 3 - 105 - 3)
        self.assertAlmostEqual(self.measurements["samples_per_second"], 200 / 20)

    def test_the_last_evaluation_counts(self):
        self.assertEqual(self.measurements["accuracy"], 0.75)

    def test_a_compilation_during_training_is_told(self):
        self.assertEqual(self.measurements["late_compilations"], 1)

    def test_parts_of_a_step_are_means(self):
        self.assertEqual(self.measurements["step_time"], {"input_wait": 0, "dispatch": 2, "compute": 3, "read_back": 0})

    def test_startup_ends_with_the_first_step(self):
        marks = startup.marks(finished_run())
        self.assertEqual(marks, {"runner started": 1, "first program ready": 5, "first step done": 10})


class Report(unittest.TestCase):
    def test_the_ratio_is_of_medians(self):
        runs = lambda *speeds: [{"samples_per_second": speed} for speed in speeds]
        results = {"traind": runs(10, 30, 20), "trainer": runs(10, 1, 100)}
        self.assertEqual(report.ratio(results, "trainer"), "2.00x")
        self.assertEqual(report.ratio(results, "traind"), "")


class Rounds(unittest.TestCase):
    def test_every_second_round_is_in_reverse(self):
        turns = []
        measure = lambda side: turns.append(side) or {"samples_per_second": len(turns)}
        results = rounds.alternate(["traind", "trainer"], 3, measure)
        self.assertEqual(turns, ["traind", "trainer", "trainer", "traind", "traind", "trainer"])
        self.assertEqual(report.measurements(results["trainer"], "samples_per_second"), [2, 3, 6])

    def test_a_line_has_medians_below_their_titles(self):
        runs = lambda *speeds: [{"samples_per_second": speed, "loss": speed / 10} for speed in speeds]
        table = rounds.Table(6, 8, (rounds.Column("loss", "last loss", 10, 4),))
        results = {"traind": runs(10, 30, 20), "trainer": runs(8, 1, 100)}
        self.assertEqual(
            [table.header(), *table.lines("llama", results)],
            [
                "       side      samples/s           (range)  last loss  traind / it",
                "llama  traind        20.00       10.00-30.00     2.0000             ",
                "llama  trainer        8.00       1.00-100.00     0.8000        2.50x",
            ],
        )


class Shapes(unittest.TestCase):
    def test_the_speed_is_the_median_after_the_warm_up(self):
        speeds = [(5, 1.0), (10, 1.0), (15, 30.0), (20, 40.0), (25, 20.0)]
        self.assertEqual(shapes.measurements(speeds, 2.5), {"samples_per_second": 30.0, "loss": 2.5})

    def test_brief_works_are_those_of_the_same_names(self):
        for group, works in shapes.WORKS.items():
            self.assertEqual(shapes.BRIEF[group].keys(), works.keys())
            for work in [*shapes.BRIEF[group].values(), *works.values()]:
                self.assertEqual(work.batch % shapes.CORES, 0)
                self.assertGreater(work.steps, shapes.WARM_UP_STEPS + 5)
                self.assertIn("train", work.job("model", "rows", shapes.CORES))

    def test_the_operations_of_a_step_are_those_of_its_products(self):
        with tempfile.TemporaryDirectory() as folder:
            config = {"hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 2}
            (Path(folder) / "config.json").write_text(json.dumps(config))
            work = SimpleNamespace(batch=3, length=5, task="sequence-classification")
            linears, attention = 2 * (4 * 16 + 2 * 32), 2 * 2 * 5 * 4
            self.assertEqual(efficiency.step_flops(work, Path(folder)), 6 * 15 * (linears + attention))


if __name__ == "__main__":
    unittest.main()
