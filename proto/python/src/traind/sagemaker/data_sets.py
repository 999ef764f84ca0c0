"""Data sets of the hub that the example scripts name by `dataset_name`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Short names that examples use, with today's ids.
IDS = {
    "ag_news": "fancyzhx/ag_news",
    "amazon_polarity": "fancyzhx/amazon_polarity",
    "beans": "AI-Lab-Makerere/beans",
    "big_patent": "NortheasternUniversity/big_patent",
    "billsum": "FiscalNote/billsum",
    "c4": "allenai/c4",
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "cnn_dailymail": "abisee/cnn_dailymail",
    "conll2003": "eriktks/conll2003",
    "dbpedia_14": "fancyzhx/dbpedia_14",
    "emotion": "dair-ai/emotion",
    "food101": "ethz/food101",
    "gigaword": "Harvard/gigaword",
    "glue": "nyu-mll/glue",
    "imdb": "stanfordnlp/imdb",
    "mnist": "ylecun/mnist",
    "multi_news": "alexfabbri/multi_news",
    "opus100": "Helsinki-NLP/opus-100",
    "opus_books": "Helsinki-NLP/opus_books",
    "rotten_tomatoes": "cornell-movie-review-data/rotten_tomatoes",
    "samsum": "Samsung/samsum",
    "scientific_papers": "armanc/scientific_papers",
    "snli": "stanfordnlp/snli",
    "squad": "rajpurkar/squad",
    "squad_v2": "rajpurkar/squad_v2",
    "tweet_eval": "cardiffnlp/tweet_eval",
    "wikitext": "Salesforce/wikitext",
    "wmt14": "wmt/wmt14",
    "wmt15": "wmt/wmt15",
    "wmt16": "wmt/wmt16",
    "wmt17": "wmt/wmt17",
    "wmt18": "wmt/wmt18",
    "wmt19": "wmt/wmt19",
    "wnut_17": "leondz/wnut_17",
    "xnli": "facebook/xnli",
    "xsum": "EdinburghNLP/xsum",
    "yelp_polarity": "fancyzhx/yelp_polarity",
    "yelp_review_full": "Yelp/yelp_review_full",
}


def splits(name: str, hyperparameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the fields of a data set: the splits that the script would read, by their field path."""
    wanted = {"data.train": True}
    for phase, path in (("do_eval", "data.validation"), ("do_predict", "data.test")):
        wanted[path] = str(hyperparameters.get(phase, False)).lower() == "true"
    return [(path, IDS.get(name, name)) for path, is_read in wanted.items() if is_read]
