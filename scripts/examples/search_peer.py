"""Trains on the rows of scripts/examples/search.py with sentence-transformers.

usage: search_peer.py JOB.json    prints the seconds of training and nDCG@10 as JSON
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1", TRANSFORMERS_VERBOSITY="error")

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import evaluation, losses

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import sentence_trainer


def read(file):
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def main():
    settings = json.loads(Path(sys.argv[1]).read_text())
    data, train = settings["data"], settings["train"]
    model = SentenceTransformer(settings["model"]["name_or_path"], device="cpu")
    model.max_seq_length = data["max_length"]
    metrics = sentence_trainer.train(
        model,
        read(data["train"]),
        losses.MultipleNegativesRankingLoss(model),
        seed=train["seed"],
        num_train_epochs=train["num_train_epochs"],
        per_device_train_batch_size=settings["batch_size"],
        learning_rate=train["learning_rate"],
        warmup_steps=train["warmup_steps"],
        logging_steps=train["logging_steps"],
    )
    seconds = metrics["train_runtime"]
    print(json.dumps({"seconds": seconds, "after": ndcg(model, read(data["validation"]))}))


def ndcg(model, rows):
    """nDCG@10 of descriptions that are found by their synopses. As in traind, those that are equal as far as the model
    reads them are one: the order of equal scores would decide which of them is found."""
    tokens = [tuple(model.tokenizer(row["description"], truncation=True)["input_ids"]) for row in rows]
    corpus = {of: row["description"] for of, row in zip(reversed(tokens), reversed(rows), strict=True)}
    names = {of: str(place) for place, of in enumerate(corpus)}
    queries = {str(place): row["synopsis"] for place, row in enumerate(rows)}
    relevant = {str(place): {names[of]} for place, of in enumerate(tokens)}
    corpus = {names[of]: text for of, text in corpus.items()}
    evaluator = evaluation.InformationRetrievalEvaluator(queries, corpus, relevant, write_csv=False)
    return float(evaluator(model)["cosine_ndcg@10"])


if __name__ == "__main__":
    main()
