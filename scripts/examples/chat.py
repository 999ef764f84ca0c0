"""Trains adapters of a small Llama to answer what a manual page describes, and compares them with the Llama without them.

The score is the perplexity of the answers about pages that nothing was trained on. It is compared with that of the model
before it has adapters, which has read manual pages but no question, and of the frequencies of the tokens of answers.
"""

import collections
import math
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("lib", "lib/corpora")]

import manual_model

import manuals
import progress
import service
import small_models


def main():
    options = manual_model.parser(__doc__).parse_args()
    train, evaluated = manual_model.split(manuals.read(options.manuals))
    print(f"{len(train)} pages to train on, {len(evaluated)} to evaluate")
    with tempfile.TemporaryDirectory(prefix="chat.") as scratch:
        scratch = Path(scratch)
        tokenizer = manual_model.prepare(scratch, train)
        manual_model.write_conversations(scratch, train, evaluated)
        start = time.monotonic()
        with service.Daemon(options.traind) as daemon:
            daemon.run(manual_model.pretraining(options, scratch), progress.show)
            run = daemon.run(manual_model.conversations(options, scratch, adapters=True), progress.show)
        minutes = (time.monotonic() - start) / 60
    losses = [evaluation.metrics["eval_loss"] for _, evaluation in run.of_kind("evaluated")]
    before, after = losses[0], losses[-1]
    frequencies = unigram_loss(*(tokens(tokenizer, pages) for pages in (train, evaluated)))
    print(
        f"perplexity {math.exp(after):.1f} after {minutes:.1f} minutes; without adapters: {math.exp(before):.1f}; "
        f"by the frequencies of tokens: {math.exp(frequencies):.1f}"
    )
    sys.exit(0 if after < min(before, frequencies) else "not better than the baselines")


def tokens(tokenizer, pages):
    """The tokens that the loss counts: answers with the space before them and the token that ends them."""
    return [tokenizer.encode(f" {page.description}{small_models.END}").ids for page in pages]


def unigram_loss(known, evaluated):
    """The mean loss of a token by its share among the known ones, in which each token counts once more."""
    counts = collections.Counter(token for row in known for token in row)
    total = counts.total() + manual_model.VOCABULARY
    found = [-math.log((counts[token] + 1) / total) for row in evaluated for token in row]
    return sum(found) / len(found)


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    main()
