"""The texts that the quickstart trains on."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib" / "corpora"))

import generated_text
import package_index

INDEX = """\
Package: first
Description: a game of chess
Tag: game::board,
 uitoolkit::gtk
Section: universe/games

Package: second
Description-en: reads mail
Section: mail

Package: first-copy
Description: a game of chess
Section: oldlibs

Package: no-section
Description: is of no use here
"""


class PackageIndex(unittest.TestCase):
    def test_descriptions_once_with_the_last_part_of_their_section(self):
        self.assertEqual(package_index.parse(INDEX), [("a game of chess", "games"), ("reads mail", "mail")])

    def test_an_empty_index_has_no_rows(self):
        self.assertEqual(package_index.parse(""), [])


class GeneratedText(unittest.TestCase):
    def test_a_seed_gives_the_same_rows(self):
        self.assertEqual(generated_text.rows(50, seed=3), generated_text.rows(50, seed=3))
        self.assertNotEqual(generated_text.rows(50, seed=3), generated_text.rows(50, seed=4))

    def test_most_labels_are_the_topic_of_a_word_and_some_are_not(self):
        rows = generated_text.rows(2000)
        right = sum(bool(set(text.lower().split()) & words(label)) for text, label in rows)
        self.assertGreater(right, 0.9 * len(rows))
        self.assertLess(right, 0.97 * len(rows))

    def test_all_topics_occur(self):
        self.assertEqual({label for _, label in generated_text.rows(2000)}, set(generated_text.TOPICS))


def words(topic):
    return set(generated_text.TOPICS[topic].split())


if __name__ == "__main__":
    unittest.main()
