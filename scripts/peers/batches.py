"""Tokenized rows in batches of few shapes: each is padded to its longest row, rounded up to a multiple of eight."""

import numpy as np
from tokenizers import Tokenizer

import datafiles

LENGTH_STEP = 8
# Rows are grouped by length within runs of this many batches, as in the Trainer's group_by_length.
GROUPED_BATCHES = 50


def read(path, tokenizer_file, length=128):
    texts, labels = datafiles.texts_and_labels(path)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(length)
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)], np.array(labels, np.int32)


def order(rows, batch, grouped, generator):
    """Row numbers of each batch of an epoch."""
    shuffled = generator.permutation(len(rows))
    if grouped:
        span = batch * GROUPED_BATCHES
        runs = [shuffled[start : start + span] for start in range(0, len(rows), span)]
        shuffled = np.concatenate([sorted(run, key=lambda row: len(rows[row]), reverse=True) for run in runs])
    batches = [shuffled[start : start + batch] for start in range(0, len(rows), batch)]
    return [batches[index] for index in generator.permutation(len(batches))] if grouped else batches


def padded_length(rows):
    return -(-max(map(len, rows)) // LENGTH_STEP) * LENGTH_STEP


def collate(rows, labels, chosen, batch):
    """Arrays of one batch; rows that are missing in the last one are filled with weight zero."""
    picked = [rows[row] for row in chosen]
    ids = np.zeros((batch, padded_length(picked)), np.int32)
    mask = np.zeros_like(ids)
    # A filling row attends to one token, so that its softmax is finite.
    mask[:, 0] = 1
    for row, tokens in enumerate(picked):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    filled = lambda values: np.concatenate([values, np.zeros(batch - len(chosen), values.dtype)])
    weights = filled(np.ones(len(chosen), np.float32))
    return {"ids": ids, "mask": mask, "labels": filled(labels[chosen]), "weights": weights}
