"""Random rows of a small vocabulary."""

import random

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    *["cat", "dog", "cow", "owl", "fox", "bee", "apple", "pear", "plum", "fig", "lime", "kiwi", "hammer", "saw"],
    *["drill", "file", "wrench", "clamp", "the", "a", "is", "was", "big", "small", "old", "new", "red", "green"],
    *["in", "on", "under", "near", "house", "tree", "box", "road", "and", "or", "not", "?", "##s", "##ed", "##ing"],
]


def sentence(choose, lengths=(2, 5, 9)):
    """Words, in one of a few numbers: each padded length is two programs to compile."""
    return " ".join(choose.choice(WORDS[:38]) for _ in range(choose.choice(lengths)))


def classified(count, seed=1, classes=3):
    choose = random.Random(seed)
    return [{"text": sentence(choose), "label": choose.randrange(classes)} for _ in range(count)]


def pairs(count, seed=2):
    choose = random.Random(seed)
    return [{"text": sentence(choose), "pair": sentence(choose), "label": choose.randrange(3)} for _ in range(count)]


def questions(count, seed=3):
    choose, rows = random.Random(seed), []
    for index in range(count):
        words = sentence(choose, (3, 9, 18)).split()
        place = choose.randrange(len(words))
        start = len(" ".join(words[:place])) + (1 if place else 0)
        answers = {"text": [words[place]], "answer_start": [start]}
        question = f"is {sentence(choose, (1, 3))} ?"
        rows.append({"id": f"q{index}", "question": question, "context": " ".join(words), "answers": answers})
    return rows


def tagged(count, seed=4):
    choose, rows = random.Random(seed), []
    for _ in range(count):
        words = sentence(choose).split()
        rows.append({"tokens": words, "labels": [len(word) % 3 for word in words]})
    return rows


def lines(count, seed=5):
    choose = random.Random(seed)
    suffixes = ["", "s", "ed", "ing"]
    return [
        {"text": " ".join(word + choose.choice(suffixes) for word in sentence(choose).split())} for _ in range(count)
    ]
