"""Random rows of every task."""

import random

from rows import WORDS, classified, lines, pairs, questions, sentence, tagged  # noqa: F401 for the tables

# As answers that have parts of one or several tokens.
MORE = ["Ünïcode", "naïve café", "x=1;", "日本", "😀", "U.S.", "it's", "3.14", "\n", "\t", "  two", "<b>", '"quoted"']


def words(choose, most=7):
    return " ".join(choose.choice(WORDS[:38]) for _ in range(choose.randint(1, most)))


def odd(choose, most=7):
    """Words with an odd one among them."""
    text = words(choose, most)
    return text if choose.random() < 0.7 else f"{text} {choose.choice(MORE)}"


def talks(count, seed=11, system=0.3, turns=(1, 2)):
    """Conversations with a system's text in some."""
    choose, rows = random.Random(seed), []
    for _ in range(count):
        messages = [{"role": "system", "content": words(choose, 3)}] if choose.random() < system else []
        for _ in range(choose.randint(*turns)):
            messages += [{"role": "user", "content": odd(choose, 5)}, {"role": "assistant", "content": odd(choose, 5)}]
        rows.append({"messages": messages})
    return rows


def plain_talks(count, seed=10):
    """Short questions and answers."""
    return talks(count, seed, system=0.0, turns=(1, 1))


def prompted(count, seed=12):
    choose = random.Random(seed)
    return [{"prompt": odd(choose, 5), "completion": " " + odd(choose, 5)} for _ in range(count)]


def prompted_talks(count, seed=13):
    choose, rows = random.Random(seed), []
    for _ in range(count):
        prompt = [{"role": "user", "content": odd(choose, 5)}]
        rows.append({"prompt": prompt, "completion": [{"role": "assistant", "content": odd(choose, 5)}]})
    return rows


def plain(count, seed=14, most=9):
    choose = random.Random(seed)
    return [{"text": odd(choose, most)} for _ in range(count)]


def compared(count, seed=15, kind="texts"):
    """Pairs of a preferred and a rejected completion: `texts`, `messages` or `implicit` prompts."""
    choose, rows = random.Random(seed), []
    for _ in range(count):
        prompt, chosen, rejected = odd(choose, 5), odd(choose, 4), odd(choose, 6)
        if kind == "texts":
            rows.append({"prompt": prompt, "chosen": f" {chosen}", "rejected": f" {rejected}"})
            continue
        asked = [{"role": "user", "content": prompt}]
        row = {
            key: [{"role": "assistant", "content": text}] for key, text in [("chosen", chosen), ("rejected", rejected)]
        }
        rows.append(
            {"prompt": asked, **row} if kind == "messages" else {key: asked + value for key, value in row.items()}
        )
    return rows


def judged(count, seed=20, kind="texts"):
    """Prompts with a completion that is desirable or not."""
    choose = random.Random(seed)
    return [
        {
            "prompt": row["prompt"],
            "completion": row[choose.choice(["chosen", "rejected"])],
            "label": choose.random() < 0.6,
        }
        for row in compared(count, seed, kind)
    ]


def translated(count, seed=16):
    choose = random.Random(seed)
    return [{"source": odd(choose, 8), "target": odd(choose, 5)} for _ in range(count)]


def instructed(count, seed=17):
    """Alpaca's columns, some without an input."""
    choose = random.Random(seed)
    made = ({"instruction": odd(choose, 4), "input": "", "output": odd(choose, 5)} for _ in range(count))
    return [row | {"input": words(choose, 3)} if choose.random() < 0.5 else row for row in made]


def several(count, seed=18, classes=4):
    """Texts of which several classes hold."""
    choose = random.Random(seed)
    return [
        {"text": sentence(choose), "label": [float(choose.random() < 0.4) for _ in range(classes)]}
        for _ in range(count)
    ]


def valued(count, seed=19):
    choose = random.Random(seed)
    return [{"text": sentence(choose), "label": round(choose.gauss(0, 1), 3)} for _ in range(count)]
