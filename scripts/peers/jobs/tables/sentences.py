"""Jobs as users of sentence-transformers run them: evaluations whose rows have other numbers of texts than those that are
trained on."""

from sentences import COLUMNS, PASSAGES, labelled, listed

from tables.base import of

BY_STEPS = {"eval_strategy": "steps", "eval_steps": 2}
MARGINS = {"loss": "margin_mse", "similarity": "cos_sim"}


def rows(columns, count, label=None, seed=71):
    return labelled(columns, label)(count, seed)


def embedding(trained, evaluated, label=(None, None), **section):
    """Rows with these numbers of texts."""
    train = rows(COLUMNS[:trained], 14, label[0])
    section = {"loss": "multiple_negatives_ranking", **section}
    return of(
        "embedding", train, "bert", evaluated=rows(COLUMNS[:evaluated], 7, label[1]), embedding=section, train=BY_STEPS
    )


def reranker(trained, evaluated, label, **section):
    train = rows(PASSAGES[:trained], 14, label[0])
    return of(
        "reranker", train, "bert", spec={"labels": 1}, evaluated=rows(PASSAGES[:evaluated], 7, label[1]),
        reranker=section, train=BY_STEPS,
    )  # fmt: skip


CASES = {
    "pairs-evaluated-by-triplets": embedding(2, 3),
    "triplets-evaluated-by-pairs": embedding(3, 2),
    "many-evaluated-by-pairs-in-parts": embedding(4, 2, mini_batch_size=2),
    "triplets-evaluated-by-pairs-on-two-cores": embedding(3, 2),
    "margins-of-one-evaluated-by-margins-of-two": embedding(3, 4, ("margin", "margins"), **MARGINS),
    "reranked-by-margins-of-two-evaluated-by-one": reranker(4, 3, ("margins", "margin"), loss="margin_mse"),
    "reranked-by-margins-of-one-evaluated-by-two": reranker(3, 4, ("margin", "margins"), loss="margin_mse"),
}


def ranked(trained, evaluated, **section):
    """Pairs to train on and lists to evaluate, whose loss is that of their pairs; in sentence-transformers, lists are for
    an evaluator."""
    pairs = [
        {"query": row["query"], "passage": passage, "label": label}
        for row in evaluated
        for passage, label in zip(row["docs"], row["labels"], strict=True)
    ]
    return of(
        "reranker", trained, "bert", spec={"labels": 1}, evaluated=evaluated, reranker={"list_size": 4, **section},
        train={**BY_STEPS, "per_device_eval_batch_size": 64},
        more={"read": lambda folder: {"train": trained, "validation": pairs}},
    )  # fmt: skip


CASES |= {
    "reranked-by-pairs-evaluated-by-lists": ranked(
        rows(PASSAGES[:2], 14, "pair"), listed(7, 72), loss="binary_cross_entropy"
    ),
    "reranked-by-scores-evaluated-by-lists": ranked(rows(PASSAGES[:2], 14, "score"), listed(7, 73), loss="mse"),
}
CASES["triplets-evaluated-by-pairs-on-two-cores"].job["resources"] = {"cores": 2}

# As published decoders embed texts, and as layers leave out padding: short texts beside long ones.
CASES["embedded-by-last-tokens-behind-padding"] = of(
    "embedding",
    [{**row, "positive": " ".join([row["positive"]] * 5)} for row in rows(COLUMNS[:2], 32)],
    "qwen3",
    spec={"tokenizer": {"padding_side": "left"}, "template": ""},
    data={"max_length": 48},
    embedding={"loss": "multiple_negatives_ranking", "pooling_mode": "lasttoken"},
)
