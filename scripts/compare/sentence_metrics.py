"""Metrics of 1,000 rows, which jobs of embeddings and rerankers must report as sentence-transformers' evaluators do.

Jobs take one step with a rate of 0, evaluate, and predict. The evaluators get the vectors of `traind embed`, and the scores
of the jobs: those of sentence-transformers differ in the last bits, which change the ranks of numbers that are nearly equal.

usage: sentence_metrics.py embedding|reranker TRAIND MODEL SCRATCH
"""

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1")

import numpy
import pyarrow.parquet
import torch
from outputs import run_alone
from sentence_transformers.cross_encoder import CrossEncoder
from sentence_transformers.cross_encoder import evaluation as of_pairs
from sentence_transformers.sentence_transformer import evaluation
from sentence_transformers.util import cos_sim

ROWS = 1000
TOLERANCE = 1e-6
LENGTH_MAX = 32
QUIET = {"write_csv": False, "show_progress_bar": False}


def evaluated(traind, folder, task, model, rows, **settings):
    """What the job logs of the evaluation, without its prefix."""
    name = f"metrics-{len(list(folder.glob('metrics-*.json')))}"
    file = f"{name}-rows.jsonl"
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    job = {
        "name": name,
        "model": {"name_or_path": str(model), "task": task},
        "data": {"train": file, "validation": file, "test": file, "max_length": LENGTH_MAX},
        "train": {
            "max_steps": 1,
            "learning_rate": 0.0,
            "per_device_train_batch_size": 8,
            "per_device_eval_batch_size": 64,
            "eval_strategy": "steps",
            "eval_steps": 1,
            "save_strategy": "no",
            "do_predict": True,
        },
        "resources": {"platform": "cpu", "cores": 2},
        "output_dir": f"out-{name}",
        **settings,
    }
    output = run_alone(traind, folder, job)
    log = json.loads((output / "trainer_state.json").read_text())["log_history"]
    [entry] = [entry for entry in log if "eval_loss" in entry]
    return output, {key.removeprefix("eval_"): value for key, value in entry.items()}


def compare(name, ours, theirs):
    """Exits where a metric of sentence-transformers is another here."""
    lacking = [key for key in theirs if key not in ours]
    largest = max(abs(ours[key] - float(theirs[key])) for key in theirs if key in ours)
    print(f"{name}: {len(theirs)} metrics differ by at most {largest:.1e}")
    if lacking or not largest <= TOLERANCE:
        wrong = {key: (ours.get(key), float(value)) for key, value in theirs.items()}
        sys.exit(f"{name}: the metrics are not sentence-transformers': {wrong}")


class Vectors:
    """Stands for a model, with the vectors that traind writes of the texts."""

    similarity_fn_name = "cosine"
    model_card_data = type("Card", (), {"set_evaluation_metrics": lambda *_, **__: None})()

    def __init__(self, traind, folder, model, texts):
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        command = [traind, "embed", model, "texts.jsonl", "--text", "text", "--output", "vectors", "--cores", "2"]
        command += ["--max-length", str(LENGTH_MAX)]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        column = pyarrow.parquet.read_table(folder / "vectors" / "predictions.parquet")["text"].to_pylist()
        self.vectors = dict(zip(texts, numpy.array(column, dtype=numpy.float32), strict=True))

    def similarity(self, one, other):
        return cos_sim(one, other)

    def encode(self, texts, convert_to_tensor=False, **_):
        vectors = numpy.stack([self.vectors[text] for text in texts])
        return torch.tensor(vectors) if convert_to_tensor else vectors

    encode_query = encode_document = encode


def of_embeddings(traind, folder, model, text):
    questions, answers, others = (
        [text(row, kind) for row in range(ROWS)] for kind in ("question", "answer", "other answer")
    )
    encoder = Vectors(traind, folder, model, questions + answers + others)
    rows = [dict(zip(["q", "a", "n"], texts, strict=True)) for texts in zip(questions, answers, others, strict=True)]
    _, ours = evaluated(traind, folder, "embedding", model, rows)
    corpus = {at: document for at, document in enumerate(answers + others)}
    relevant = {at: {at} for at in range(ROWS)}
    retrieval = evaluation.InformationRetrievalEvaluator(dict(enumerate(questions)), corpus, relevant, **QUIET)
    compare("retrieval", ours, named(retrieval(encoder)))
    compare("triplets", ours, named(evaluation.TripletEvaluator(questions, answers, others, **QUIET)(encoder)))
    scores = [at * 37 % 101 / 100 for at in range(ROWS)]
    rows = [
        {"a": one, "b": other, "score": score} for one, other, score in zip(questions, answers, scores, strict=True)
    ]
    _, ours = evaluated(traind, folder, "embedding", model, rows, embedding={"loss": "cosent"})
    similarity = evaluation.EmbeddingSimilarityEvaluator(questions, answers, scores, **QUIET)
    compare("similarity", ours, named(similarity(encoder)))


def of_rerankers(traind, folder, model, text):
    """With the model that a job leaves, which has a head."""
    questions, answers = ([text(row, kind) for row in range(ROWS)] for kind in ("question", "answer"))
    pairs = [list(pair) for pair in zip(questions, answers, strict=True)]
    kinds = {
        "relevance": ("binary_cross_entropy", [at * 7 % 3 // 2 for at in range(ROWS)]),
        "correlation": ("mse", [at * 37 % 101 / 100 for at in range(ROWS)]),
    }
    for name, (loss, labels) in kinds.items():
        rows = [{"query": q, "passage": p, "label": label} for (q, p), label in zip(pairs, labels, strict=True)]
        model, ours = evaluated(traind, folder, "reranker", model, rows, reranker={"loss": loss})
        evaluator = of_pairs.CrossEncoderClassificationEvaluator
        evaluator = evaluator if name == "relevance" else of_pairs.CrossEncoderCorrelationEvaluator
        compare(name, ours, named(evaluator(pairs, labels, **QUIET)(Scores(model, pairs))))
    lists = [[text(row * 5 + at, "passage") for at in range(4)] for row in range(ROWS)]
    relevant = [[float((row + at) % 3 == 0) for at in range(4)] for row in range(ROWS)]
    relevant = [labels if any(labels) else [1.0, 0.0, 0.0, 0.0] for labels in relevant]
    given = zip(questions, lists, relevant, strict=True)
    rows = [{"query": query, "passages": passages, "labels": labels} for query, passages, labels in given]
    section = {"loss": "list_net", "list_size": 4}
    model, ours = evaluated(traind, folder, "reranker", model, rows, reranker=section)
    pairs = [[row["query"], passage] for row in rows for passage in row["passages"]]
    samples = [
        {"query": row["query"]}
        | {
            key: [
                passage for passage, label in zip(row["passages"], row["labels"], strict=True) if (label > 0) == wanted
            ]
            for key, wanted in (("positive", True), ("negative", False))
        }
        for row in rows
    ]
    theirs = of_pairs.CrossEncoderRerankingEvaluator(samples, always_rerank_positives=True, **QUIET)(
        Scores(model, pairs)
    )
    compare("reranking", ours, named(theirs))


class Scores(CrossEncoder):
    """Stands for a model, with the scores that a job wrote for its pairs."""

    device, num_labels = torch.device("cpu"), 1
    model_card_data = type("Card", (), {"set_evaluation_metrics": lambda *_, **__: None})()

    def __init__(self, output, pairs):
        torch.nn.Module.__init__(self)
        table = pyarrow.parquet.read_table(output / "predictions.parquet")
        column = table["score" if "score" in table.column_names else "scores"].to_pylist()
        scores = [score for scores in column for score in scores] if isinstance(column[0], list) else column
        self.given = {tuple(pair): score for pair, score in zip(pairs, scores, strict=True)}

    def predict(self, pairs, **_):
        return numpy.array([self.given[tuple(pair)] for pair in pairs], dtype=numpy.float32)


def named(metrics):
    return {name: value for name, value in metrics.items() if not name.startswith("base_")}


if __name__ == "__main__":
    from embedding_outputs import text

    kind, traind, model, scratch = sys.argv[1:]
    {"embedding": of_embeddings, "reranker": of_rerankers}[kind](traind, Path(scratch), model, text)
