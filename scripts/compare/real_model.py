"""The comparisons with a real pretrained BERT on real text: a fresh classification head, dropout off, rows in file order."""

import json

import both
from both import peers

LEARNING_RATE = 1e-4


def parser(doc, steps, batch):
    parser = both.parser(doc, batch)
    parser.add_argument("--steps", type=int, default=steps)
    return parser


def labels(options):
    return len(json.loads((options.data / "labels.json").read_text()))


def save(options, folder):
    """Saves the model that both begin with."""
    peers(options, "save_with_head.py", options.model, folder, labels(options))


def run_trainer(options, model, out, *more):
    """The Trainer's log of each step."""
    peers(
        options, "trainer.py", "--model", model, "--train", options.data / "train.parquet", "--labels", labels(options),
        "--out", out, "--batch", options.batch, "--max-steps", options.steps, "--learning-rate", LEARNING_RATE,
        "--dropout", 0, "--sampling", "sequential", "--logging-steps", 1, *more,
    )  # fmt: skip
    return json.loads(out.read_text())["log_history"]


def run_traind(options, name, model, output, **train):
    """The same job here, with more of the section `train`."""
    model = {
        "name_or_path": str(model),
        "task": "sequence-classification",
        "num_labels": labels(options),
        "config_overrides": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    }
    data = {"train": str(options.data / "train.parquet"), "text": "text", "label": "label", "max_length": 128}
    return both.run_job(options, name, model, data, LEARNING_RATE, options.steps, output, **train)
