"""Short texts in many languages, for benchmarks of tokenizers: sentences of the descriptions of Debian's packages.

Each text is labelled with its language.
"""

import json
import random
import re

import descriptions

# The shortest sentence, in characters.
LENGTH_MIN = 12
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")


def read(folder):
    """Lists of the different sentences by language."""
    return {
        language: sentences(descriptions.read(folder, language).values()) for language in descriptions.languages(folder)
    }


def sentences(found):
    texts = {}
    for description in found:
        for text in [description.synopsis, *END_OF_SENTENCE.split(description.body)]:
            if len(text) >= LENGTH_MIN:
                texts[text] = None
    return list(texts)


def write(file, texts, count):
    """Writes `count` rows as JSON lines, the same ones every time; returns the number of languages.

    Single sentences come first, then pairs, and so on, so that rows hardly ever repeat.
    """
    order = [(language, index) for language, of_it in texts.items() for index in range(len(of_it))]
    random.Random(0).shuffle(order)
    with file.open("w") as lines:
        for row in range(count):
            language, index = order[row % len(order)]
            of_it = texts[language]
            parts = (of_it[(index + part) % len(of_it)] for part in range(1 + row // len(order)))
            lines.write(json.dumps({"text": " ".join(parts), "label": language}, ensure_ascii=False) + "\n")
    return len(texts)
