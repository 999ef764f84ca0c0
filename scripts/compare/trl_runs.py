"""Runs of TRL's trainers beside traind's, from the same random weights and rows."""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import both
from both import peers

import steps  # found by both

EOS_TOKEN = "[SEP]"
CHAT_TEMPLATE = """{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{ message.content + eos_token }}{% endgeneration %}
    {%- else %}
        {{- '[CLS]' + message.content + eos_token }}
    {%- endif %}
{%- endfor %}
"""


@dataclass(frozen=True)
class Trainer:
    """One of TRL's trainers, and how its runs are compared."""

    #: The task in a job file, and the option with the families to compare.
    task: str
    learning_rate: float
    steps: int
    #: Writes the rows of a kind, made of texts: `write_rows(kind, texts, rows)`.
    write_rows: Callable[[str, Path, Path], None]
    #: Runs a case: `run_traind(options, model, rows, output, case, adapters, number)`. Returns its log.
    run_traind: Callable[..., Any]
    #: Complaints besides those of the losses: `complaints(reference, ours)`.
    complaints: Callable[[Any, Any], list[str]] = lambda _reference, _ours: []

    def main(self, documentation, cases):
        """Compares cases: family, kind of rows, and arguments of the trainer's config for each run."""
        parser = both.parser(documentation, batch=4)
        parser.add_argument(
            f"--{self.task}", nargs="*", default=[], help="families to compare; all where none is named"
        )
        options = parser.parse_args()
        families = getattr(options, self.task)
        results = [self.compare(options, *case) for case in cases if not families or case[0] in families]
        print(f"(largest relative differences; limits: {steps.LIMIT_FIRST} at the first step, {steps.LIMIT} later)")
        sys.exit(1 if any(results) else 0)

    def compare(self, options, family, kind, runs):
        """Prints a line for each run; returns whether anything is wrong."""
        wrong = False
        with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
            scratch = Path(scratch)
            texts, rows, model = scratch / "texts.jsonl", scratch / "train.jsonl", scratch / "model"
            reference, adapters = scratch / "reference.json", scratch / "adapters"
            peers(options, "task_rows.py", "causal-lm", options.data / "train.parquet", texts)
            self.write_rows(kind, texts, rows)
            peers(options, "random_model.py", family, "causal-lm", options.model, model)
            add_template(model)
            amounts = [self.steps, options.batch, self.learning_rate]
            given = map(json.dumps, runs)
            peers(options, "trl_trainer.py", self.task, model, rows, reference, adapters, *amounts, *given)
            for number, (run, history) in enumerate(zip(runs, json.loads(reference.read_text()), strict=True)):
                output = scratch / f"output-{number}"
                ours = self.run_traind(options, model, rows, output, run, adapters, number)
                pairs = steps.pair(history, ours)
                complaints = steps.complaints(pairs, self.steps) + self.complaints(history, ours)
                steps.report(f"{family}, {kind}", "TRL", run, pairs, complaints)
                wrong = wrong or bool(complaints)
        return wrong


def add_template(model):
    """Gives a model folder the chat template of the comparisons."""
    (model / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    settings = model / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"eos_token": EOS_TOKEN}))
