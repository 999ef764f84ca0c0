"""Tests the check of functions."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib" / "lints"))

import functions


def function(lines: int) -> str:
    body = "        run();\n" * (lines - 2)
    return f"impl Job {{\n    pub(crate) async fn start(&self) {{\n{body}    }}\n}}\n"


class Functions(unittest.TestCase):
    def test_a_long_function_is_found(self):
        (problem,) = functions.problems_of("a.rs", function(71))
        self.assertEqual(problem, "a.rs:2: start has 71 lines of 70: divide it")
        self.assertEqual(list(functions.problems_of("a.rs", function(70))), [])

    def test_functions_on_one_line_and_without_a_body_are_short(self):
        short = (
            "trait Job {\n    fn name(&self) -> &str;\n    fn run(&self) {}\n"
            + "\n" * 80
            + "    fn stop(&self) {\n    }\n}\n"
        )
        self.assertEqual(list(functions.problems_of("a.rs", short)), [])

    def test_tests_may_be_long(self):
        text = "#[cfg(test)]\nmod tests {\n" + function(99) + "}\n"
        self.assertEqual(list(functions.problems_of("a.rs", text)), [])
        self.assertTrue(functions.TESTS.search("daemon/runner/src/plan/tests.rs"))
        self.assertTrue(functions.TESTS.search("loader/tests/fuzz.rs"))
        self.assertFalse(functions.TESTS.search("daemon/src/control/tested.rs"))


if __name__ == "__main__":
    unittest.main()
