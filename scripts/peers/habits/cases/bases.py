"""Settings that most cases of a task share."""

from features import (
    as_they_are,
    masked,
    of_blocks,
    of_causal_blocks,
    of_questions,
    of_texts,
    of_words,
    pad,
    pad_with_labels,
)
from rows import classified, lines, pairs, questions, tagged

QUESTIONS = {
    "task": "question-answering",
    "rows": questions(30),
    "evaluated": questions(13, 33),
    "features": of_questions(),
    "collator": pad,
    "data": {"max_length": 24, "doc_stride": 4, "id": "id"},
}
TEXTS = {
    "task": "sequence-classification",
    "rows": classified(30),
    "evaluated": classified(13, 31),
    "features": of_texts(),
    "collator": pad,
    "model": {"num_labels": 3},
    "data": {"max_length": 32},
}
PAIRS = {
    **TEXTS,
    "rows": pairs(30),
    "evaluated": pairs(13, 32),
    "features": of_texts("pair"),
    "data": {"text_pair": "pair", "max_length": 32},
}
TAGS = {
    "task": "token-classification",
    "rows": tagged(30),
    "evaluated": tagged(13, 34),
    "features": of_words,
    "collator": pad_with_labels,
    "model": {"num_labels": 3},
    "data": {"max_length": 32},
}


def with_classes(*names):
    """A config of a model with these classes."""
    numbers = {name: index for index, name in enumerate(names)}
    return {"id2label": {index: name for name, index in numbers.items()}, "label2id": numbers}


LEFT = {"padding_side": "left"}
# The tokenizers of families without segments name these.
NO_SEGMENTS = {"model_input_names": ["input_ids", "attention_mask"]}

GPT2 = {
    "fixture": "gpt2-sequence-classification",
    "config": {"n_positions": 32, "pad_token_id": 0},
    "tokenizer": {"tokenizer_class": "PreTrainedTokenizerFast"},
}
WHOLE = {"whole_word_mask": True, "mlm_probability": 1.0}
BLOCKS = {
    "task": "masked-lm",
    "rows": lines(60),
    "evaluated": lines(30, 35),
    "features": of_blocks(8, return_special_tokens_mask=True),
    "collator": masked,
    "data": {"block_size": 8, **WHOLE},
}
CAUSAL = {
    "task": "causal-lm",
    "rows": lines(60),
    "evaluated": lines(30, 35),
    "features": of_causal_blocks(8),
    "collator": as_they_are,
    "data": {"block_size": 8},
}
