"""Marks in place of words that a small model cannot know.

No model knows the names that it has never seen. It is given marks for them, which it puts into its text, and which are
words again before that is compared.
"""

import collections
import re

MARKS = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳㉑㉒㉓㉔"
MARKS_MAX = len(MARKS)
WORD = re.compile(r"\w+")


def known_words(texts, sources_min):
    """Words of at least so many sources. `texts` are pairs of a source and a text."""
    found = {(word.lower(), source) for source, text in texts for word in WORD.findall(text)}
    counts = collections.Counter(word for word, _ in found)
    return {word for word, count in counts.items() if count >= sources_min}


def names_of(text, known, most=MARKS_MAX):
    """The words of a text that get marks, in their order, each once."""
    unknown = dict.fromkeys(word for word in WORD.findall(text) if word.lower() not in known)
    return list(unknown)[:most]


def marked(text, names):
    return WORD.sub(lambda word: MARKS[names.index(word[0])] if word[0] in names else word[0], text)


def restored(text, names):
    """The text with names in place of marks, of which it may have more than there are names."""
    return "".join(dict(zip(MARKS, names, strict=False)).get(character, character) for character in text)
