"""Random jobs of embeddings and rerankers, which sentence-transformers trains too."""

import functools
import random

import newer
import texts
from drawn import ACTIVATIONS, arguments, cores, evaluation_rows
from tables.base import of

COLUMNS = ["anchor", "positive", "negative", "other"]
PASSAGES = ["query", "passage", "second", "third"]
# The hidden size of the models, and so the numbers of an embedding.
WIDTH = 16
ALL_DIRECTIONS = ["query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"]
HARDNESS = ["in_batch_negatives", "hard_negatives", "all_negatives"]
CLASSES = 3

# Labels of rows with columns of texts.
LABELS = {
    "score": lambda choose: round(choose.random(), 2),
    "pair": lambda choose: choose.randint(0, 1),
    "class": lambda choose: choose.randrange(CLASSES),
    "teacher": lambda choose: [round(choose.gauss(0, 1), 3) for _ in range(WIDTH)],
    "margin": lambda choose: round(choose.gauss(0, 1), 2),
    "margins": lambda choose: [round(choose.gauss(0, 1), 2) for _ in range(2)],
}
# Each loss of embeddings with the columns that a row has, its label, and its settings.
EMBEDDINGS = [
    ("multiple_negatives_ranking", 2, None),
    ("multiple_negatives_ranking", 3, None),
    ("multiple_negatives_ranking", 4, None),
    ("cosent", 2, "score"),
    ("cosine_similarity", 2, "score"),
    ("triplet", 3, None),
    ("contrastive", 2, "pair"),
    ("online_contrastive", 2, "pair"),
    ("batch_hard_triplet", 1, "class"),
    ("mse", 1, "teacher"),
    ("mse", 2, "teacher"),
    ("margin_mse", 3, "margin"),
    ("margin_mse", 4, "margins"),
]
RERANKERS = [
    ("binary_cross_entropy", "pair"),
    ("binary_cross_entropy", "score"),
    ("mse", "score"),
    ("cross_entropy", "class"),
    ("margin_mse", "margin"),
    ("margin_mse", "margins"),
    ("list_net", "list"),
    ("lambda", "list"),
]


def labelled(columns, label):
    """Makes rows of texts with such a label."""

    def make(count, seed):
        choose, rows = random.Random(seed), []
        for _ in range(count):
            row = {column: texts.odd(choose, 6) for column in columns}
            rows.append(row | ({"label": LABELS[label](choose)} if label else {}))
        return rows

    return make


def listed(count, seed, most=1):
    """Queries with lists of passages, at least one of which is relevant; labels up to `most`."""
    choose, rows = random.Random(seed), []
    for _ in range(count):
        passages = [texts.odd(choose, 5) for _ in range(choose.randint(2, 4))]
        labels = [1.0, *(choose.randrange(most + 1) / choose.choice([1, most]) for _ in passages[1:])]
        rows.append({"query": texts.odd(choose, 4), "docs": passages, "labels": labels})
    return rows


def model(choose):
    """A family with changes of its config."""
    family = choose.choice(["bert", "distilbert", "roberta", "xlm-roberta"])
    if choose.random() < 0.3:
        family = choose.choice([*newer.ENCODERS])
        return family, newer.ENCODERS[family](choose)
    if family == "distilbert":
        return family, choose.some(0.3, n_layers=[1, 3], hidden_dim=[24], activation=["gelu", "relu"])
    return family, choose.some(
        0.3, num_hidden_layers=[1, 3], intermediate_size=[24], hidden_act=ACTIVATIONS, layer_norm_eps=[1e-5],
        num_attention_heads=[1, 4],
    )  # fmt: skip


def of_whole_batches(rows, train, resources):
    """The rows without those of a short batch, if batches are accumulated: in sentence-transformers, such rows weigh
    more. See docs/compatibility.md."""
    batch = train["per_device_train_batch_size"] * resources.get("cores", 1)
    return rows[: max(1, len(rows) // batch) * batch] if "gradient_accumulation_steps" in train else rows


def embedding(choose):
    family, config = model(choose)
    loss, columns, label = choose.choice(EMBEDDINGS)
    make = labelled(COLUMNS[:columns], label)
    rows, held = make(choose.randint(8, 16), choose.randrange(1000)), evaluation_rows(choose, make)
    train = arguments(choose, rows, held, smoothing=False)
    if loss == "multiple_negatives_ranking":
        # The only text of a batch is no negative of itself, so that nothing but rounding is trained on.
        train["per_device_train_batch_size"] = max(2, train["per_device_train_batch_size"])
    section = {"loss": loss} | settings(choose, loss, train)
    section |= choose.some(
        0.4, pooling_mode=["cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"], normalize=[True]
    )
    if loss != "mse":
        section |= choose.some(0.2, dense_out_features=[12])
        if "dense_out_features" in section:
            section |= choose.some(0.5, dense_activation_function=["identity", "relu"])
        elif choose.random() < 0.2:
            section |= {"matryoshka_dims": [WIDTH, 8], "matryoshka_weights": [1.0, 0.5]}
    resources = cores(choose)
    return of(
        "embedding", of_whole_batches(rows, train, resources), family, spec={"config": config},
        data={"max_length": choose.choice([8, 24])}, train=train, evaluated=held, embedding=section, resources=resources,
    )  # fmt: skip


def settings(choose, loss, train):
    """Settings that the loss reads."""
    match loss:
        case "multiple_negatives_ranking":
            found = choose.some(0.4, scale=[5.0, 30.0], similarity=["dot_score"])
            # Dot products of states are large.
            found |= {"scale": 1.0} if "similarity" in found else {}
            if "similarity" not in found and choose.random() < 0.4:
                found |= {"hardness_mode": choose.choice(HARDNESS), "hardness_strength": choose.choice([2.0, 9.0])}
            if choose.random() < 0.3:
                directions = choose.choice([["query_to_doc", "doc_to_query"], ALL_DIRECTIONS])
                found["directions"] = directions
                found |= choose.some(0.5, partition_mode=["per_direction"]) if len(directions) == 2 else {}
            elif train["per_device_train_batch_size"] == 4 and choose.random() < 0.5:
                found["mini_batch_size"] = 2
            return found
        case "cosent":
            return choose.some(0.4, scale=[5.0, 30.0])
        case "triplet":
            return choose.some(0.4, distance_metric=["cosine", "manhattan"], margin=[0.3, 1.0])
        case "contrastive" | "online_contrastive":
            return choose.some(0.4, distance_metric=["euclidean", "manhattan"], margin=[0.3, 1.0])
        case "batch_hard_triplet":
            return choose.some(0.4, distance_metric=["cosine"], margin=[0.3, 1.0])
        case "margin_mse":
            return {"similarity": "cos_sim"}
    return {}


def reranker(choose):
    family, config = model(choose)
    loss, label = choose.choice(RERANKERS)
    columns = {"margin": 3, "margins": 4}.get(label, 2)
    make = functools.partial(listed, most=2) if label == "list" else labelled(PASSAGES[:columns], label)
    rows, held = make(choose.randint(8, 16), choose.randrange(1000)), evaluation_rows(choose, make)
    section = {"loss": loss} | ({"list_size": 4} if label == "list" else {})
    if loss == "binary_cross_entropy":
        section |= choose.some(0.4, pos_weight=[0.5, 3.0])
    if loss == "lambda":
        schemes = ["none", "ndcg_loss1", "ndcg_loss2", "lambda_rank"]
        section |= choose.some(0.4, weighting_scheme=schemes, k=[2], sigma=[0.5], reduction_log=["natural"])
    train, resources = arguments(choose, rows, held, smoothing=False), cores(choose)
    rows = of_whole_batches(rows, train, resources)
    # The templates of decoders render pairs.
    spec = {"config": config, "labels": CLASSES if label == "class" else 1}
    return of(
        "reranker", rows, family, spec=spec,
        data={"max_length": choose.choice([12, 32])}, train=train, evaluated=held, reranker=section,
        resources=resources,
    )  # fmt: skip
