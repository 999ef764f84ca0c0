"""A generated stand-in for the package descriptions: short texts of 20 topics.

Each text mixes words of its topic with words of any topic and with words of none, so that a model
has to weigh several words; one text in twelve carries another topic's label, which bounds the accuracy.
"""

import random
from pathlib import Path

# The words of `traind demo`: a line for each topic, and a last one for words of none.
WORDS = Path(__file__).resolve().parents[3] / "daemon/src/cli/demo/topics.txt"
TOPICS = dict(line.split(": ") for line in WORDS.read_text().splitlines())
FILLERS = TOPICS.pop("(any)").split()


def rows(count, seed=0):
    """`count` pairs of text and topic, the same ones for the same seed."""
    generator = random.Random(seed)
    return [row(generator) for _ in range(count)]


def row(generator):
    topics = list(TOPICS)
    topic = generator.choice(topics)
    own = generator.choices(TOPICS[topic].split(), k=generator.randint(1, 3))
    strange = [generator.choice(TOPICS[generator.choice(topics)].split()) for _ in range(generator.randint(0, 2))]
    words = own + strange + generator.choices(FILLERS, k=generator.randint(2, 14))
    generator.shuffle(words)
    label = generator.choice(topics) if generator.random() < 1 / 12 else topic
    return " ".join(words).capitalize(), label
