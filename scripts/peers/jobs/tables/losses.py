"""Every loss of embeddings, rerankers and preferences: 20 steps of a small model, on one core and on several.

Names begin with the task. `KIND-in-parts` is the same job as `KIND`, whose batches pass through the model in parts, and
`KIND-on-N-cores` the same on N cores.
"""

import copy
import functools

import texts
from sentences import COLUMNS, PASSAGES, labelled, listed

from tables import preferences
from tables.base import of

STEPS, BATCH = 20, 16
# The last batch of an epoch has fewer rows, which no number of cores divides.
ROWS = 37
CORES = [2, 8]
ALL = ["query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"]
SYMMETRIC = {"directions": ["query_to_doc", "doc_to_query"], "partition_mode": "per_direction"}
RANKING = {"loss": "multiple_negatives_ranking"}
HARD = {"hardness_mode": "hard_negatives", "hardness_strength": 5.0}
GIST = {"loss": "gist", "temperature": 0.1, "guide": "guide"}
# The texts of a row, its label, and the settings of the loss.
EMBEDDINGS = {
    "ranking": (2, None, RANKING),
    "ranking-scaled": (4, None, RANKING | {"scale": 7.0}),
    "ranking-of-products": (3, None, RANKING | {"scale": 0.5, "similarity": "dot_score"}),
    "ranking-symmetric": (3, None, RANKING | SYMMETRIC),
    "ranking-in-all-directions": (4, None, RANKING | {"directions": ALL}),
    "ranking-by-hardness": (3, None, RANKING | {"hardness_mode": "in_batch_negatives", "hardness_strength": 9.0}),
    "ranking-by-hard-negatives": (4, None, RANKING | HARD),
    "ranking-by-all-negatives": (
        3, None, RANKING | SYMMETRIC | {"hardness_mode": "all_negatives", "hardness_strength": 4.0},
    ),
    "ranking-matryoshka": (3, None, RANKING | {"matryoshka_dims": [16, 8], "matryoshka_weights": [1.0, 0.5]}),
    "gist": (3, None, GIST),
    "gist-relative": (2, None, GIST | {"margin_strategy": "relative", "margin": 0.05}),
    "gist-of-documents": (3, None, GIST | {"contrast_anchors": False, "contrast_positives": False, "margin": 0.02}),
    "cosent": (2, "score", {"loss": "cosent"}),
    "cosent-scaled": (2, "score", {"loss": "cosent", "scale": 5.0}),
    "cosine": (2, "score", {"loss": "cosine_similarity"}),
    "cosine-matryoshka": (
        2, "score", {"loss": "cosine_similarity", "matryoshka_dims": [16, 4], "matryoshka_weights": [1.0, 1.0]},
    ),
    "triplet": (3, None, {"loss": "triplet"}),
    "triplet-by-cosine": (3, None, {"loss": "triplet", "distance_metric": "cosine", "margin": 0.3}),
    "triplet-by-manhattan": (3, None, {"loss": "triplet", "distance_metric": "manhattan", "margin": 1.0}),
    "contrastive": (2, "pair", {"loss": "contrastive"}),
    "contrastive-euclidean": (2, "pair", {"loss": "contrastive", "distance_metric": "euclidean", "margin": 3.0}),
    "online": (2, "pair", {"loss": "online_contrastive"}),
    "online-euclidean": (2, "pair", {"loss": "online_contrastive", "distance_metric": "euclidean", "margin": 3.0}),
    "batch-hard": (1, "class", {"loss": "batch_hard_triplet"}),
    "batch-hard-by-cosine": (1, "class", {"loss": "batch_hard_triplet", "distance_metric": "cosine", "margin": 0.3}),
    "mse": (1, "teacher", {"loss": "mse"}),
    "mse-of-two": (2, "teacher", {"loss": "mse"}),
    "margins": (3, "margin", {"loss": "margin_mse", "similarity": "cos_sim"}),
    "margins-of-two": (4, "margins", {"loss": "margin_mse", "similarity": "cos_sim"}),
}  # fmt: skip
# The columns of passages, or a list; the label, and the settings of the loss.
RERANKERS = {
    "relevance": (1, "pair", {"loss": "binary_cross_entropy"}),
    "relevance-weighted": (1, "score", {"loss": "binary_cross_entropy", "pos_weight": 3.0}),
    "scores": (1, "score", {"loss": "mse"}),
    "classes": (1, "class", {"loss": "cross_entropy"}),
    "margins": (2, "margin", {"loss": "margin_mse"}),
    "margins-of-two": (3, "margins", {"loss": "margin_mse"}),
    "shares": (0, "list", {"loss": "list_net"}),
    "order": (0, "list", {"loss": "lambda"}),
    "order-of-two": (0, "list", {"loss": "lambda", "mu": 2.0, "k": 2}),
    "order-unweighted": (0, "list", {"loss": "lambda", "weighting_scheme": "none", "reduction_log": "natural"}),
    "order-by-gain": (0, "list", {"loss": "lambda", "weighting_scheme": "ndcg_loss1", "sigma": 0.5}),
    "order-by-discount": (0, "list", {"loss": "lambda", "weighting_scheme": "ndcg_loss2"}),
    "order-by-rank": (0, "list", {"loss": "lambda", "weighting_scheme": "lambda_rank"}),
}
PREFERENCES = {
    "reward": [{}, {"center_rewards_coefficient": 0.02}],
    "orpo": [{}, {"beta": 0.5}],
    "cpo": [
        {},
        {"label_smoothing": 0.1, "beta": 0.3},
        {"loss_type": "hinge"},
        {"loss_type": "ipo", "beta": 0.5},
        {"loss_type": "simpo", "simpo_gamma": 0.8, "beta": 2.0, "cpo_alpha": 0.0},
        {"loss_type": "simpo", "cpo_alpha": 0.5},
        {"loss_type": "alphapo", "alpha": 0.25},
    ],
    "kto": [{}, {"beta": 0.5, "undesirable_weight": 1.3}, {"loss_type": "apo_zero_unpaired"}],
}
# The losses of `dpo`, and more of them than users' jobs have.
DPO = preferences.LOSSES | {"sigmoid": {}, "aot-unpaired": {"loss_type": "aot_unpaired"}}
# Losses that compare the pairs of a core, and completions that change places among those of a core.
OF_A_CORE = ("dpo-by-aot", "dpo-by-aot-unpaired", "kto-1", "kto-2")


def of_task(task, rows, **given):
    return of(task, rows, train={"max_steps": STEPS, "per_device_train_batch_size": BATCH}, **given)


def embedding(columns, label, section):
    others = {"others": {"guide": {}}} if "guide" in section else {}
    rows = labelled(COLUMNS[:columns], label)(ROWS, 81)
    return of_task("embedding", rows, family="bert", embedding=section, spec=others)


def reranker(passages, label, section):
    make = functools.partial(listed, most=2) if label == "list" else labelled(PASSAGES[: 1 + passages], label)
    section = section | ({"list_size": 4} if label == "list" else {})
    labels = {"labels": 3 if label == "class" else 1}
    return of_task("reranker", make(ROWS, 82), family="bert", reranker=section, spec=labels)


def preference(task, section):
    rows = (texts.judged if task == "kto" else texts.compared)(ROWS, 83)
    return of_task(task, rows, family="llama", data={"max_length": 64}, **{task: section})


def compared(section):
    """Against another reference, so that no step begins with equal models."""
    case = of_task(
        "dpo", texts.compared(ROWS, 83), data={"max_length": 64},
        dpo={"ref_model_name_or_path": "reference", **section}, **preferences.OTHER,
    )  # fmt: skip
    # It multiplies the rounding of sums over tokens.
    case.first_limit = 1e-4 if section.get("beta", 0.0) > 1 else case.first_limit
    return case


def on_cores(case, cores):
    case = copy.deepcopy(case)
    case.job["resources"] = {"cores": cores}
    case.job["train"]["per_device_train_batch_size"] = BATCH // cores
    return case


def in_parts(case):
    case = copy.deepcopy(case)
    case.job["embedding"]["mini_batch_size"] = 4
    return case


BASE = {f"embedding-{name}": embedding(*case) for name, case in EMBEDDINGS.items()}
CASES = BASE | {
    f"{name}-in-parts": in_parts(case)
    for name, case in BASE.items()
    if name.startswith(("embedding-ranking", "embedding-gist"))
}
BASE |= {f"reranker-{name}": reranker(*case) for name, case in RERANKERS.items()}
BASE |= {
    f"{task}-{at + 1}": preference(task, section)
    for task, sections in PREFERENCES.items()
    for at, section in enumerate(sections)
}
BASE |= {f"dpo-by-{name}": compared(section) for name, section in DPO.items()}
CASES |= BASE
CASES |= {
    f"{name}-on-{cores}-cores": on_cores(case, cores)
    for name, case in BASE.items()
    for cores in CORES
    if name not in OF_A_CORE
}
