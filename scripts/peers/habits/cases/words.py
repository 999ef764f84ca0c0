"""Token classification: words and their labels."""

from case import case
from cases.bases import TAGS, with_classes
from features import of_words
from rows import tagged

TAG_NAMES = ["O", "B-LOC", "I-LOC"]


def changed(places, count=30):
    """Rows of words, some of them replaced."""
    rows = tagged(count)
    for index, words in places.items():
        rows[index] = {"tokens": words, "labels": [len(word) % 3 for word in words]}
    return rows


def by_name(rows):
    return [{**row, "labels": [TAG_NAMES[label] for label in row["labels"]]} for row in rows]


def of_tag_names(rows, tokenizer):
    numbers = [{**row, "labels": [TAG_NAMES.index(label) for label in row["labels"]]} for row in rows]
    return of_words(numbers, tokenizer)


@case
def words_and_tags():
    # As run_ner numbers names that the model does not know: in alphabetical order.
    ordered = sorted(TAG_NAMES)
    tags = {"rows": by_name(tagged(30)), "evaluated": by_name(tagged(13, 34)), "features": of_tag_names}
    zero_width = {1: ["cat", "\u200b", "was"], 4: ["\ufe0f", "dog"], 6: ["", "cow"], 7: ["\x00", "red", "\u00ad"]}
    fewer = [{**row, "labels": row["labels"][:-1]} if index == 3 else row for index, row in enumerate(tagged(30))]
    more = [{**row, "labels": [*row["labels"], 0]} if index == 3 else row for index, row in enumerate(tagged(30))]
    partly = [{**row, "labels": [-100, *row["labels"][1:]]} for row in tagged(30)]
    text = [{**row, "tokens": " ".join(row["tokens"])} if index == 3 else row for index, row in enumerate(tagged(30))]
    return {
        "plain": TAGS,
        "two-cores": {**TAGS, "resources": {"cores": 2}},
        "smoothed": {**TAGS, "train": {"label_smoothing_factor": 0.1, "adam_epsilon": 1e-3}},
        "names": {**TAGS, **tags, "config": with_classes(*TAG_NAMES), "model": {}},
        "names-in-order": {
            **TAGS,
            **tags,
            "model": {},
            "features": lambda rows, tokenizer: of_words(
                [{**row, "labels": [ordered.index(label) for label in row["labels"]]} for row in rows], tokenizer
            ),
        },
        "nothing-to-see": {**TAGS, "rows": changed(zero_width)},
        "special-tokens": {**TAGS, "rows": changed({2: ["[SEP]", "cat", "[MASK]"], 5: ["[PAD]", "[CLS]dog"]})},
        "ignored": {**TAGS, "rows": partly},
        "fewer-labels": {**TAGS, "rows": fewer, "trained": False, "refusal": "labels for"},
        "more-labels": {**TAGS, "rows": more, "refusal": "labels for"},
        "one-text": {**TAGS, "rows": text, "trained": False, "refusal": "expected a list of texts"},
    }
