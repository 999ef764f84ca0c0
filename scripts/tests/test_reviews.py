"""The texts of the benchmark `tokenizing`."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib" / "corpora"))

import descriptions
import reviews

PORTUGUESE = """\
Package: chess
Description-md5: 11
Description-pt_BR: jogo de xadrez
 Um jogo para dois. Brancas e pretas.
"""
JAPANESE = """\
Package: chess
Description-md5: 11
Description-ja: 二人で遊ぶチェスのゲームです
 白と黒の二人で交互に指します。短い。
"""


class Reviews(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        lists = self.folder / "lists"
        lists.mkdir()
        (lists / "mirror_main_i18n_Translation-pt%5fBR").write_text(PORTUGUESE)
        (lists / "mirror_main_i18n_Translation-ja").write_text(JAPANESE)

    def test_sentences_are_filed_by_language_without_short_ones(self):
        self.assertEqual(descriptions.languages(self.folder), ["ja", "pt_BR"])
        self.assertEqual(
            reviews.read(self.folder),
            {
                "ja": ["二人で遊ぶチェスのゲームです", "白と黒の二人で交互に指します。"],
                "pt_BR": ["jogo de xadrez", "Um jogo para dois.", "Brancas e pretas."],
            },
        )

    def test_pairs_of_one_language_follow_the_single_sentences(self):
        file = self.folder / "rows.jsonl"
        texts = reviews.read(self.folder)
        self.assertEqual(reviews.write(file, texts, 10), 2)
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        singles = sorted(text for of_it in texts.values() for text in of_it)
        self.assertEqual(sorted(row["text"] for row in rows[:5]), singles)
        self.assertEqual(len({row["text"] for row in rows}), 10)
        self.assertIn({"text": "jogo de xadrez Um jogo para dois.", "label": "pt_BR"}, rows[5:])


if __name__ == "__main__":
    unittest.main()
