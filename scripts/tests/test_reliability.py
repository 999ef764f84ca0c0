"""The table of reliability: figures of outputs, and rows that stay."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "soak"))

import publish

OUTPUT = """\
running 2 tests
test soak::kills::kills_neither_lose_nor_duplicate_jobs ... 5 kills: 0 jobs lost or doubled, 0 orphans; attached again p99 93ms
ok
a.csv: 100 cases, 40 refused, 3 MB, 900 a second
b.parquet: 50 cases, 45 refused, 7 MB, 80 a second
10 clients and 5 that never read
test families::two ... 2 cores of trn1.2xlarge: 3 jobs with 1 sets of options
1 cores of trn1.2xlarge: 5 jobs with 7 sets of options
115 jobs on 6 meshes: 100 are clean, 15 have another mesh for a reason of their models
115 jobs on 5 meshes: 90 are clean, 25 have another mesh for a reason of their models
"""


class Figures(unittest.TestCase):
    def test_lines_are_found_behind_the_names_of_tests(self):
        found = publish.figures(OUTPUT)
        kills = "kills of the daemon, while jobs are submitted and run"
        self.assertEqual(found[kills], "5 kills: 0 jobs lost or doubled, 0 orphans; attached again p99 93ms")

    def test_times_have_three_digits(self):
        self.assertEqual(publish.rounded("p99 229.85105ms, in 2s; 10s a KiB"), "p99 230 ms, in 2 s; 10 s a KiB")

    def test_kinds_of_files_are_added_up(self):
        found = publish.figures(OUTPUT)["files of data, tokenizers and models, damaged"]
        self.assertEqual(found, "150 files of 2 kinds: 85 refused, the others read; at most 7 MB more memory")

    def test_jobs_and_programs_of_neuron_cores_are_added_up(self):
        found = publish.figures(OUTPUT)
        jobs = "38 jobs with the same losses and metrics to 1e-6; cores: 1 of trn1.2xlarge, 2 of trn1.2xlarge"
        self.assertEqual(found["jobs on the twin of NeuronCores, beside CPU devices"], jobs)
        programs = "230 jobs on 11 meshes: 190 are clean, the others have another mesh for a reason of their models"
        self.assertEqual(found["programs checked for NeuronCores"], programs)

    def test_a_figure_of_several_lines_needs_all_of_them(self):
        self.assertNotIn("clients that call, beside others that never read", publish.figures(OUTPUT))

    def test_rows_that_were_not_measured_again_stay(self):
        page = f"top\n{publish.BEGIN}\n{publish.END}\nbottom\n"
        calls, kills = "calls while jobs run", "kills of the daemon, while jobs are submitted and run"
        first = publish.with_rows(page, {calls: f"| {calls} | 1 |", kills: f"| {kills} | 1 |"})
        second = publish.with_rows(first, {calls: f"| {calls} | 2 |"})
        self.assertIn(f"| {kills} | 1 |\n| {calls} | 2 |", second)
        self.assertEqual(second.count(calls), 1)
        self.assertTrue(second.startswith("top\n") and second.endswith("\nbottom\n"))

    def test_every_row_of_the_page_is_one_that_is_measured(self):
        page = publish.PAGE.read_text(encoding="utf-8")
        self.assertEqual(publish.with_rows(page, {}), page)


if __name__ == "__main__":
    unittest.main()
