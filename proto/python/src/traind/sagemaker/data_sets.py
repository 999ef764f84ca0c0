"""Data sets of the hub that the example scripts name by `dataset_name`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Short names that examples use, with today's ids.
IDS = {
    "ag_news": "fancyzhx/ag_news",
    "beans": "AI-Lab-Makerere/beans",
    "c4": "allenai/c4",
    "cifar10": "uoft-cs/cifar10",
    "conll2003": "eriktks/conll2003",
    "emotion": "dair-ai/emotion",
    "glue": "nyu-mll/glue",
    "imdb": "stanfordnlp/imdb",
    "rotten_tomatoes": "cornell-movie-review-data/rotten_tomatoes",
    "squad": "rajpurkar/squad",
    "squad_v2": "rajpurkar/squad_v2",
    "wikitext": "Salesforce/wikitext",
    "wnut_17": "leondz/wnut_17",
    "xnli": "facebook/xnli",
    "yelp_review_full": "Yelp/yelp_review_full",
}


def splits(name: str, hyperparameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the fields of a data set: the splits that the script would read, by their field path."""
    wanted = {"data.train": True}
    for phase, path in (("do_eval", "data.validation"), ("do_predict", "data.test")):
        wanted[path] = str(hyperparameters.get(phase, False)).lower() == "true"
    return [(path, IDS.get(name, name)) for path, is_read in wanted.items() if is_read]
