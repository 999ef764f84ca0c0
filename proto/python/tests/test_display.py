"""Terminal, notebook and chart."""

import importlib.util
import io
import json
import math
import pickle
import unittest
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import support
from support import evaluated, event, moved, step

from traind.errors import CallError, FieldViolation, JobFileInvalid
from traind.history import Metrics
from traind.progress.chart import loss_curve
from traind.progress.notebook import NotebookDisplay
from traind.progress.terminal import TerminalDisplay, bar, printable
from traind.records import Event
from traind.v1 import events_pb2
from traind.view import JobView


def view(name="running", **fields):
    job = JobView()
    job._message = support.job(name, **fields)
    return job


def events(*messages):
    return [Event.of(message) for message in messages]


class Lines(unittest.TestCase):
    """The lines of `traind logs`, which a test of the daemon writes."""

    def test_events_have_the_words_of_the_command_line(self):
        lines = json.loads(Path(__file__).with_name("event_lines.json").read_text(encoding="utf-8"))
        for message, line in lines:
            with self.subTest(line):
                self.assertEqual(str(Event.of(events_pb2.Event.FromString(bytes.fromhex(message)))), line)


class Terminal(unittest.TestCase):
    def test_steps_move_the_bar_and_others_are_lines(self):
        stream = io.StringIO()
        display = TerminalDisplay(view(), stream)
        warning = event(2, warning=events_pb2.Warning(message="rows \x1b[2J are cut"))
        for found in events(step(1, 2, loss=0.25), warning, moved(3, "completed")):
            display.show(found)
        display.close()
        display.conclude(view("completed", output_dir="/out", metrics={"eval_loss": 0.5}))
        drawn = stream.getvalue()
        self.assertIn("[===============               ] 2/4 loss 0.2500", drawn)
        self.assertIn("warning: rows \N{REPLACEMENT CHARACTER}[2J are cut\n", drawn)
        self.assertTrue(drawn.endswith("job j1 completed\neval_loss 0.5000\noutput: /out\n"), drawn)

    def test_a_bar_never_grows_over_its_end(self):
        values = {"loss": 1.0, "learning_rate": 1.0, "samples_per_second": 1.0, "eta_seconds": 0.0}
        self.assertIn(f"[{'=' * 30}] 9/4", bar({"step": 9, "max_steps": 4, **values}))

    def test_text_gives_the_terminal_no_orders(self):
        self.assertEqual(printable("a\x1b\r\u202eb\nä\t"), "a\ufffd\ufffd\ufffdb\nä\t")


class Notebook(unittest.TestCase):
    def setUp(self):
        self.shown = []
        handle = SimpleNamespace(update=self.shown.append)
        ipython = SimpleNamespace(HTML=str, display=lambda html, display_id: self.shown.append(html) or handle)
        self.now = 0.0
        self.display = NotebookDisplay(view(), ipython, clock=lambda: self.now)

    def show(self, *messages):
        for found in events(*messages):
            self.now += 0.2
            self.display.show(found)

    def test_a_cell_is_drawn_now_and_then_and_at_the_end(self):
        self.show(step(1, 1, loss=2.0), step(2, 2), evaluated(3, 2, eval_loss=0.5), step(4, 3), step(5, 4))
        self.display.close()
        self.assertEqual(len(self.shown), 1 + 1 + 1)
        self.assertIn("4/4", self.shown[-1])
        self.assertIn("eval_loss", self.shown[-1])

    def test_names_cannot_write_html(self):
        self.show(event(1, warning=events_pb2.Warning(message="<script>")))
        self.display.close()
        self.assertIn("&lt;script&gt;", self.shown[-1])
        self.assertNotIn("<script>", self.shown[-1])


class Chart(unittest.TestCase):
    def curve(self, losses, name="loss"):
        return loss_curve(Metrics({"step": at, name: loss} for at, loss in enumerate(losses, 1)))

    def points(self, svg):
        drawn = ElementTree.fromstring(svg).find("{*}polyline").get("points")
        return [tuple(map(float, point.split(","))) for point in drawn.split()]

    def test_a_falling_loss_falls(self):
        points = self.points(self.curve([3.0, 2.0, 1.0]))
        self.assertEqual([x for x, _ in points], sorted(x for x, _ in points))
        self.assertLess(points[0][1], points[-1][1])

    def test_long_histories_are_thinned_and_keep_their_ends(self):
        points = self.points(self.curve([1.0] * 10_000))
        self.assertLessEqual(len(points), 400)
        self.assertAlmostEqual(points[-1][0], 628, places=0)

    def test_losses_that_are_no_numbers_are_left_out(self):
        self.assertEqual(self.curve([math.nan, math.inf]), "")
        self.assertEqual(len(self.points(self.curve([1.0, math.nan, 2.0]))), 2)

    def test_one_point_is_a_mark(self):
        self.assertIn("<circle", self.curve([1.0]))
        self.assertIn("<circle", self.curve([1.0, 2.0], "eval_loss"))


@unittest.skipIf(importlib.util.find_spec("pandas") is None, "pandas is not installed")
class Frame(unittest.TestCase):
    def test_rows_are_indexed_by_their_step(self):
        rows = events(step(1, 2, loss=1.5), step(2, 4, loss=0.5), evaluated(3, 4, eval_f1=0.75))
        frame = Metrics.of(rows).frame()
        self.assertEqual(frame.index.name, "step")
        self.assertEqual(list(frame.index), [2, 4, 4])
        self.assertEqual(list(frame["loss"].dropna()), [1.5, 0.5])
        self.assertEqual(list(frame["eval_f1"].dropna()), [0.75])
        self.assertEqual(frame["epoch"].tolist(), [1.0, 2.0, 2.0])

    def test_no_rows_are_an_empty_frame(self):
        self.assertTrue(Metrics().frame().empty)


class Errors(unittest.TestCase):
    def test_an_error_survives_another_process(self):
        error = JobFileInvalid("1 mistake", code="INVALID_ARGUMENT", violations=[FieldViolation("name", "is required")])
        same = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(same), str(same), same.violations), (JobFileInvalid, str(error), error.violations))
        self.assertIsInstance(same, CallError)


if __name__ == "__main__":
    unittest.main()
