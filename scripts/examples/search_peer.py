"""Trains on the rows of scripts/examples/search.py with sentence-transformers.

usage: search_peer.py JOB.json    prints the seconds of training and nDCG@10 as JSON
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1", TRANSFORMERS_VERBOSITY="error")

import datasets
import torch
import transformers
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer import evaluation, losses


def in_order(dataset, batch_size, drop_last, **_):
    sampler = torch.utils.data.SequentialSampler(dataset)
    return DefaultBatchSampler(sampler, batch_size=batch_size, drop_last=drop_last)


def read(file):
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def main():
    settings = json.loads(Path(sys.argv[1]).read_text())
    data, train = settings["data"], settings["train"]
    model = SentenceTransformer(settings["model"]["name_or_path"], device="cpu")
    model.max_seq_length = data["max_length"]
    with tempfile.TemporaryDirectory() as scratch:
        arguments = SentenceTransformerTrainingArguments(
            scratch,
            batch_sampler=in_order,
            use_cpu=True,
            seed=train["seed"],
            num_train_epochs=train["num_train_epochs"],
            per_device_train_batch_size=settings["batch_size"],
            learning_rate=train["learning_rate"],
            warmup_steps=train["warmup_steps"],
            logging_steps=train["logging_steps"],
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        rows = datasets.Dataset.from_list(read(data["train"]))
        loss = losses.MultipleNegativesRankingLoss(model)
        trainer = SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=loss)
        trainer.remove_callback(transformers.PrinterCallback)
        seconds = trainer.train().metrics["train_runtime"]
    rows = read(data["validation"])
    corpus = list(dict.fromkeys(row["description"] for row in rows))
    places = {text: str(place) for place, text in enumerate(corpus)}
    queries = {str(place): row["synopsis"] for place, row in enumerate(rows)}
    relevant = {str(place): {places[row["description"]]} for place, row in enumerate(rows)}
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, {place: text for text, place in places.items()}, relevant, write_csv=False
    )
    print(json.dumps({"seconds": seconds, "after": float(evaluator(model)["cosine_ndcg@10"])}))


if __name__ == "__main__":
    main()
