"""Rows of each task to what the Trainer trains on, after transformers' example scripts, and to its collators."""

import json

import torch
import transformers

import pictures

IGNORED = -100
MAX_LENGTH = 64
DOC_STRIDE = 16
BLOCK_SIZE = 64
MAX_TARGET_LENGTH = 16
PREFIX = "backwards: "
NOT_FOR_THE_MODEL = {"id", "offset_mapping", "context"}


def read(path):
    """The rows of a file, with the pixels of their images."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row | {"image": pictures.read(path.parent / row["image"])} if "image" in row else row for row in rows]


def sequence_classification(rows, tokenizer):
    return [{**encode(tokenizer, row["text"]), "labels": row["label"]} for row in rows]


def encode(tokenizer, text):
    return dict(tokenizer(text, truncation=True, max_length=MAX_LENGTH))


def token_classification(rows, tokenizer):
    names = sorted({label for row in rows for label in row["labels"]})
    return [labelled(tokenizer, row, names) for row in rows]


def labelled(tokenizer, row, names):
    encoded = tokenizer(row["tokens"], is_split_into_words=True, truncation=True, max_length=MAX_LENGTH)
    words, labels, previous = encoded.word_ids(), [], None
    for word in words:
        labels.append(IGNORED if word is None or word == previous else names.index(row["labels"][word]))
        previous = word
    return {**encoded, "labels": labels}


def question_answering(rows, tokenizer):
    return [window for row in rows for window in windows(tokenizer, row)]


def windows(tokenizer, row):
    encoded = tokenizer(
        row["question"], row["context"], truncation="only_second", max_length=MAX_LENGTH, stride=DOC_STRIDE,
        return_overflowing_tokens=True, return_offsets_mapping=True,
    )  # fmt: skip
    start = row["answers"]["answer_start"][0]
    end = start + len(row["answers"]["text"][0])
    for index in range(len(encoded["input_ids"])):
        context = [place for place, part in enumerate(encoded.sequence_ids(index)) if part == 1]
        offsets = encoded["offset_mapping"][index]
        inside = [place for place in context if offsets[place][1] > start and offsets[place][0] < end]
        whole = offsets[context[0]][0] <= start and offsets[context[-1]][1] >= end
        first, last = (inside[0], inside[-1]) if whole else (0, 0)
        keys = [key for key in tokenizer.model_input_names if key in encoded]
        yield {
            **{key: encoded[key][index] for key in keys},
            **{"start_positions": first, "end_positions": last},
            # An answer is found with these; the model does not get them.
            **{"id": row["id"], "offset_mapping": offsets, "context": context},
        }


def masked_lm(rows, tokenizer):
    """Every token of a text is masked: what is drawn at random would not be the same."""
    return [masked(encode(tokenizer, row["text"]), tokenizer) for row in rows]


def masked(encoded, tokenizer):
    special = tokenizer.get_special_tokens_mask(encoded["input_ids"], already_has_special_tokens=True)
    pairs = list(zip(encoded["input_ids"], special, strict=True))
    hidden = [token if is_special else tokenizer.mask_token_id for token, is_special in pairs]
    labels = [IGNORED if is_special else token for token, is_special in pairs]
    return {**encoded, "input_ids": hidden, "labels": labels}


def causal_lm(rows, tokenizer):
    blocks = []
    # `datasets.map` hands a thousand texts at a time to `group_texts`.
    for first in range(0, len(rows), 1000):
        texts = [tokenizer(row["text"])["input_ids"] for row in rows[first : first + 1000]]
        tokens = [token for text in texts for token in text]
        starts = range(0, len(tokens) - BLOCK_SIZE + 1, BLOCK_SIZE)
        blocks += [tokens[start : start + BLOCK_SIZE] for start in starts]
    return [{"input_ids": block, "attention_mask": [1] * BLOCK_SIZE, "labels": list(block)} for block in blocks]


def seq2seq_lm(rows, tokenizer):
    return [
        {**encode(tokenizer, PREFIX + row["source"]), "labels": encode_target(tokenizer, row["target"])} for row in rows
    ]


def encode_target(tokenizer, text):
    return tokenizer(text_target=text, truncation=True, max_length=MAX_TARGET_LENGTH)["input_ids"]


def image_classification(rows, tokenizer):
    """Pixels from -1 to 1, as the image processors of ViT and DeiT make them of images that have the model's size."""
    return [{"pixel_values": normalized(row["image"]), "labels": row["label"]} for row in rows]


def normalized(pixels):
    return (torch.tensor(pixels, dtype=torch.float32).permute(2, 0, 1) * (1 / 255) - 0.5) / 0.5


TASKS = {
    "sequence-classification": sequence_classification,
    "token-classification": token_classification,
    "question-answering": question_answering,
    "masked-lm": masked_lm,
    "causal-lm": causal_lm,
    "seq2seq-lm": seq2seq_lm,
    "image-classification": image_classification,
}


def collator(task, tokenizer, model=None):
    """`model` makes the inputs of a decoder from its labels. Question answering is padded to one length: its loss runs over all positions, padding among them."""
    if task == "image-classification":
        return transformers.default_data_collator
    if task == "seq2seq-lm":
        return transformers.DataCollatorForSeq2Seq(tokenizer, model)
    length = {"padding": "max_length", "max_length": MAX_LENGTH} if task == "question-answering" else {}
    pad = transformers.DataCollatorWithPadding(tokenizer, **length)

    def collate(rows):
        labels = [row["labels"] for row in rows if isinstance(row.get("labels"), list)]
        left_out = NOT_FOR_THE_MODEL | ({"labels"} if labels else set())
        rows = [{key: value for key, value in row.items() if key not in left_out} for row in rows]
        batch = pad(rows)
        if labels:
            length = batch["input_ids"].shape[1]
            batch["labels"] = torch.tensor([row + [IGNORED] * (length - len(row)) for row in labels])
        return batch

    return collate
