"""Manual pages as text, and what the examples `chat` and `preferences` make of them."""

import gzip
import math
import sys
import tempfile
import unittest
from pathlib import Path

for folder in ("lib", "lib/corpora", "examples"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

import manual_model
import preferences

import chat
import manuals

MAN = r"""
.\" A comment.
.de Sh
.SH of a macro
..
.TH LS 1
.SH "NAME"
ls, \fBdir\fR \- list directory\-contents
.SH DESCRIPTION
.PP
List \fIinformation\fP about the
.B FILE
arguments, as
.BR stat (2)
does.
.nf
$ ls   some code that is left out
.fi
.PP
Too short.
"""
MDOC = r"""
.Dd May 1, 2020
.Sh NAME
.Nm mdoc
.Nd a language of pages
.Sh DESCRIPTION
A page has sections, each with a title.
"""


def page(name, description):
    return manuals.Page(name, (name,), description, ())


class Parsing(unittest.TestCase):
    def test_names_description_and_text_without_code(self):
        found = manuals.parse("ls", MAN)
        self.assertEqual(found.names, ("ls", "dir"))
        self.assertEqual(found.description, "list directory-contents")
        self.assertEqual(found.paragraphs, ("List information about the FILE arguments, as stat(2) does.",))

    def test_mdoc(self):
        found = manuals.parse("mdoc", MDOC)
        self.assertEqual((found.names, found.description), (("mdoc",), "a language of pages"))
        self.assertEqual(found.paragraphs, ("A page has sections, each with a title.",))

    def test_a_page_that_refers_to_another_is_none(self):
        self.assertIsNone(manuals.parse("dir", ".so man1/ls.1\n"))

    def test_a_description_is_read_once(self):
        with tempfile.TemporaryDirectory() as folder:
            section = Path(folder) / "usr/share/man/man1"
            section.mkdir(parents=True)
            for name in ("dir.1.gz", "ls.1.gz"):
                (section / name).write_bytes(gzip.compress(MAN.encode()))
            self.assertEqual([found.name for found in manuals.read([Path(folder)])], ["dir"])


class Rows(unittest.TestCase):
    def test_pages_are_trained_on_or_evaluated(self):
        pages = [page(f"page{number}", f"description {number}") for number in range(300)]
        train, evaluated = manual_model.split(pages)
        self.assertEqual({*train, *evaluated}, {*pages})
        self.assertEqual(len(train) + len(evaluated), len(pages))
        self.assertTrue(10 < len(evaluated) < 60)

    def test_every_rejected_description_is_of_another_page(self):
        pages = [page(name, f"about {name}") for name in "abcde"]
        rows = list(preferences.pairs(pages))
        self.assertEqual(len(rows), len(pages) * preferences.REJECTED)
        for row in rows:
            name = row["prompt"][0]["content"].removeprefix("What is ").removesuffix("?")
            self.assertEqual(row["chosen"][0]["content"], f"about {name}")
            self.assertNotEqual(row["rejected"], row["chosen"])

    def test_unigram_loss_of_tokens_by_their_share(self):
        rest = manual_model.VOCABULARY + 3
        self.assertAlmostEqual(
            chat.unigram_loss([[5, 5], [7]], [[5, 9]]), -(math.log(3 / rest) + math.log(1 / rest)) / 2
        )


if __name__ == "__main__":
    unittest.main()
