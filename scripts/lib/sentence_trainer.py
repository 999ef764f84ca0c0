"""Trains with SentenceTransformerTrainer in silence, on rows in their order."""

import tempfile

import datasets
import torch
import transformers
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import DefaultBatchSampler


def in_order(dataset, batch_size, drop_last, **_):
    sampler = torch.utils.data.SequentialSampler(dataset)
    return DefaultBatchSampler(sampler, batch_size=batch_size, drop_last=drop_last)


def train(model, rows, loss, callbacks=None, **arguments):
    """Trains on a list of rows, and returns the metrics of training."""
    with tempfile.TemporaryDirectory() as scratch:
        arguments = SentenceTransformerTrainingArguments(
            scratch,
            batch_sampler=in_order,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **arguments,
        )
        rows = datasets.Dataset.from_list(rows)
        trainer = SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=loss, callbacks=callbacks)
        trainer.remove_callback(transformers.PrinterCallback)
        return trainer.train().metrics
