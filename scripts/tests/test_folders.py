"""Tests the check of folders."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib" / "lints"))

import folders


class Folders(unittest.TestCase):
    def test_a_folder_with_too_many_files_is_found(self):
        files = [f"a/b/{number}.rs" for number in range(21)] + ["a/c.rs", "d.rs"]
        (problem,) = folders.problems_of(files, {})
        self.assertTrue(problem.startswith("a/b: 21 files, at most 20"), problem)
        self.assertEqual(folders.problems_of(files[1:], {}), [])
        self.assertEqual(folders.problems_of(files, {"a/b": "a list"}), [])

    def test_a_list_that_is_none_is_found(self):
        (problem,) = folders.problems_of(["a/b.rs"], {"a": "a list"})
        self.assertEqual(problem, "a: has no more than 20 files; remove it from folders.py")


if __name__ == "__main__":
    unittest.main()
