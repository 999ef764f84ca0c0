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
