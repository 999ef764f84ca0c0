"""The texts that the examples `search`, `translation` and `summaries` train on."""

import sys
import tempfile
import unittest
from pathlib import Path

for folder in ("lib", "lib/corpora", "examples"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

import search
import summaries
import translation

import descriptions
import marks
import rows

ENGLISH = """\
Package: chess
Description-md5: 11
Description-en: game of chess
 A game for two: white and black.

Package: chess-data
Description-md5: 22
Description-en: game of chess (data files)

Package: untranslated
Description-md5: 33
Description-en: reads mail

Package: same
Description-md5: 44
Description-en: XML::Parser
"""
GERMAN = """\
Package: chess
Description-md5: 11
Description-de: Schachspiel
 Ein Spiel für zwei: Weiß und Schwarz.

Package: chess-data
Description-md5: 22
Description-de: Schachspiel (Datendateien)

Package: same
Description-md5: 44
Description-de: XML::Parser
"""
SOURCES = {"chess": "chess", "chess-data": "chess"}


class Descriptions(unittest.TestCase):
    def test_synopses_are_filed_under_the_checksum_of_the_english_description(self):
        found = descriptions.parse(GERMAN)
        self.assertEqual(
            found["11"], descriptions.Description("chess", "Schachspiel", "Ein Spiel für zwei: Weiß und Schwarz.")
        )
        self.assertEqual(set(found), {"11", "22", "44"})

    def test_a_package_is_its_own_source_unless_it_names_one(self):
        with tempfile.TemporaryDirectory() as folder:
            lists = Path(folder) / "lists"
            lists.mkdir()
            index = "Package: chess\nVersion: 1\n\nPackage: chess-data\nSource: chess (1.0)\n"
            (lists / "mirror_dists_main_binary-amd64_Packages").write_text(index)
            self.assertEqual(descriptions.sources(Path(folder)), SOURCES)

    def test_a_part_of_the_names_is_held_out(self):
        held_out = sum(rows.is_held_out(f"package{number}", 0.1) for number in range(2000))
        self.assertAlmostEqual(held_out / 2000, 0.1, delta=0.03)

    def test_paragraphs_are_lines(self):
        text = " An editor.\n .\n It can\n undo.\n"
        found = descriptions.parse(f"Package: edit\nDescription-md5: 1\nDescription-en: editor\n{text}")
        self.assertEqual(found["1"].body, "An editor.\nIt can undo.")


class Summaries(unittest.TestCase):
    def packages(self, bodies):
        found = [descriptions.Description(name, f"synopsis of {name}", body) for name, body in bodies.items()]
        return summaries.packages(found, {})

    def test_packages_without_a_body_are_left_out(self):
        train, evaluated = self.packages({"a": "Text.", "b": ""})
        self.assertEqual([package.synopsis for package in train + evaluated], ["synopsis of a"])

    def test_sentences_end_at_stops_and_with_paragraphs(self):
        text = "One, v1.2 of it. Two\nThree! Four."
        self.assertEqual(summaries.sentences(text, 1), "One, v1.2 of it.")
        self.assertEqual(summaries.sentences(text, 3), "One, v1.2 of it. Two Three!")

    def test_marks_of_a_synopsis_are_those_of_its_description(self):
        package = summaries.Package("s", "Foo is a plugin for Bar.", "plugin for Bar and Baz")
        row = summaries.marked_row(package, {"is", "a", "plugin", "for", "and"})
        self.assertEqual(row, {"source": "① is a plugin for ②.", "target": "plugin for ② and Baz"})


class Search(unittest.TestCase):
    def test_synopses_of_a_source_are_trained_on_or_searched_for(self):
        bodies = {"a": "A game.\nFor two.", "b": "", "c": "x" * 500}
        found = [descriptions.Description(name, f"synopsis of {name}", body) for name, body in bodies.items()]
        names = [f"source{number}" for number in range(1000)]
        for held_out in (False, True):
            source = next(name for name in names if rows.is_held_out(name, search.EVALUATED) == held_out)
            parts = search.split(found, dict.fromkeys(bodies, source))
            self.assertEqual([len(part) for part in parts], [0, 2] if held_out else [2, 0])
            part = parts[held_out]
            self.assertEqual(part[0], {"synopsis": "synopsis of a", "description": "A game. For two."})
            self.assertEqual(len(part[1]["description"]), search.CHARACTERS_MAX)


class Pairs(unittest.TestCase):
    def pairs(self, held_out):
        """The names of packages whose source is evaluated, or is not."""
        names = (f"source{number}" for number in range(1000))
        source = next(name for name in names if rows.is_held_out(name, translation.EVALUATED) == held_out)
        split = translation.pairs(
            descriptions.parse(ENGLISH), descriptions.parse(GERMAN), dict.fromkeys(SOURCES, source)
        )
        return [[(pair.english, pair.german) for pair in part] for part in split]

    def test_translated_synopses_of_a_source_are_trained_on_or_evaluated(self):
        expected = [("game of chess", "Schachspiel"), ("game of chess (data files)", "Schachspiel (Datendateien)")]
        self.assertEqual(self.pairs(held_out=False), [expected, []])
        self.assertEqual(self.pairs(held_out=True), [[], expected])

    def test_the_nearest_synopsis_shares_most_words(self):
        known = [pair("1", "game of go", "Go-Spiel"), pair("2", "reads mail", "Liest E-Mails")]
        self.assertEqual(translation.nearest(known, ["game of chess", "mail reader"]), ["Go-Spiel", "Liest E-Mails"])


class Marks(unittest.TestCase):
    def test_words_of_few_sources_are_unknown(self):
        train = [pair(str(number), "Plugin for Foo", "") for number in range(3)] + [pair("1", "Foo Bar Bar Bar", "")]
        self.assertEqual(translation.known_words(train), {"plugin", "for", "foo"})

    def test_names_become_marks_and_marks_names(self):
        row = translation.marked_pair(pair("1", "Foo plugin for Bar, Foo", "Bar-Plugin von Foo"), {"plugin", "for"})
        self.assertEqual(row, {"source": "① plugin for ②, ①", "target": "②-Plugin von ①"})
        self.assertEqual(marks.restored("②-Plugin von ① und ③", ["Foo", "Bar"]), "Bar-Plugin von Foo und ③")

    def test_there_are_as_many_names_as_marks(self):
        text = " ".join(f"name{number}" for number in range(20))
        names = translation.names_of(text, set())
        self.assertEqual(len(names), translation.MARKS_MAX)
        self.assertEqual(marks.restored(marks.marked(text, names), names), text)


def pair(source, english, german):
    return translation.Pair(source, english, german)


if __name__ == "__main__":
    unittest.main()
