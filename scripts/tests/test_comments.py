"""Tests of the checks of comments."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib" / "lints"))

import comments


def problems(name, text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        return list(comments.problems_of(path, Path(folder)))


class Comments(unittest.TestCase):
    def test_long_comments_are_named_by_their_line(self):
        self.assertEqual(problems("a.rs", f"// {'a' * 117}\n"), [])
        self.assertEqual(problems("a.rs", f"\n/// {'ä' * 117}\n"), ["a.rs:2: the comment has 121 columns of 120"])
        self.assertEqual(len(problems("a.py", f"    # {'a' * 120}\n")), 1)

    def test_code_and_addresses_may_be_long(self):
        self.assertEqual(problems("a.rs", f'let a = "{"a" * 120}";\n#[doc = "{"a" * 120}"]\n'), [])
        self.assertEqual(problems("a.py", f"# https://{'a' * 120}\n"), [])

    def test_documentation_begins_with_a_verb_or_a_noun(self):
        for opening in ("What", "That of", "Those of", "The same"):
            found = problems("a.rs", f"/// {opening} of the last step.\npub fn a() {{}}\n")
            self.assertEqual(found, [f"a.rs:1: documentation begins with `{opening}`; begin with a verb or a noun"])
        for text in ("/// The last step.\n", "/// The same step.\n", "/// A step.\n/// That of the job.\n"):
            self.assertEqual(problems("a.rs", text), [])

    def test_no_sentence_begins_with_of(self):
        expect = "a sentence begins with `Of`; begin with its subject"
        for text in ("// Of the last step.\n", "// A step.\n// Of two, one.\n", "// A step. Of two,\n// one.\n"):
            [found] = problems("a.rs", text)
            self.assertTrue(found.endswith(expect), found)
        self.assertEqual(problems("a.py", "# A step\n# of the `Of` kind.\n"), [])


if __name__ == "__main__":
    unittest.main()
