"""Opens an output folder with the task's Auto class, answers the evaluated rows with it, and writes how far that is from
what traind wrote and reported, and what else is wrong with the folder, as JSON.

Rows are prepared by features.py and the job predicts the rows that it evaluates (of language models, it evaluates alone).

usage: reload.py TASK OUTPUT_DIR ROWS.jsonl OUT.json
"""

import json
import math
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import torch
import transformers
from pyarrow import parquet
from safetensors.torch import load_file

import features
from random_model import AUTO

BATCH = 16
ANSWER_TOKENS_MAX = 30
N_BEST = 20


def main():
    task, output, rows, out = sys.argv[1], *map(Path, sys.argv[2:])
    model, report = AUTO[task].from_pretrained(output, output_loading_info=True)
    complaints = [f"transformers reports {key}: {sorted(report[key])}" for key in report if report[key]]
    if model.config.architectures != [type(model).__name__]:
        complaints.append(f"config.json says {model.config.architectures}, not {type(model).__name__}")
    complaints += [*tie_complaints(model, task), *saved_again_complaints(model, output)]

    has_tokenizer = task != "image-classification"
    tokenizer = transformers.AutoTokenizer.from_pretrained(output) if has_tokenizer else None
    rows = features.read(rows)
    examples = features.TASKS[task](rows, tokenizer)
    logits, loss = answer(model.eval(), examples, features.collator(task, tokenizer, model))
    evaluated = last_evaluation(output)
    found = Found(model.config, output, rows, examples, logits, evaluated)
    differences = {"loss": abs(evaluated["eval_loss"] - loss) / loss, **COMPARISONS[task](found)}
    if "eval_perplexity" in evaluated:
        differences["perplexity"] = abs(evaluated["eval_perplexity"] / math.exp(loss) - 1)
    out.write_text(json.dumps({"differences": differences, "complaints": complaints}))


class Found:
    def __init__(self, config, output, rows, examples, logits, evaluated):
        self.config, self.output, self.rows, self.examples = config, output, rows, examples
        self.logits, self.evaluated = logits, evaluated

    def predictions(self):
        return parquet.read_table(self.output / "predictions.parquet").to_pylist()


def tie_complaints(model, task):
    """Language models here compute logits with the word embeddings: one tensor, and not two that are equal."""
    if task not in ("masked-lm", "causal-lm", "seq2seq-lm"):
        return []
    inner, outer = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return [] if inner.data_ptr() == outer.data_ptr() else ["the word embeddings are not tied"]


def saved_again_complaints(model, output):
    """Checks that a copy that transformers saves has the same names and bits."""
    with tempfile.TemporaryDirectory(prefix="reload.") as again:
        model.save_pretrained(again)
        ours, theirs = tensors(output), tensors(Path(again))
    if ours.keys() != theirs.keys():
        return [f"transformers saves other tensors: {sorted(ours.keys() ^ theirs.keys())}"]
    return [f"transformers saves another {name}" for name in ours if not torch.equal(ours[name], theirs[name])]


def tensors(folder):
    return {name: tensor for path in folder.glob("model*.safetensors") for name, tensor in load_file(path).items()}


@torch.no_grad()
def answer(model, examples, collate):
    """Logits of each example (of spans, starts and ends side by side), and the mean loss of all labels."""
    logits, losses, weights = [], 0.0, 0
    for start in range(0, len(examples), BATCH):
        batch = collate(examples[start : start + BATCH])
        found = model(**batch)
        weight = labels_of(batch, model)
        losses, weights = losses + found.loss.double().item() * weight, weights + weight
        spans = "start_logits" in found
        logits += torch.stack([found.start_logits, found.end_logits], -1) if spans else found.logits
    return logits, losses / weights


def labels_of(batch, model):
    """How many there are to take the mean of: rows, or tokens that have one, of causal models but the first."""
    labels = batch.get("labels")
    if labels is None or labels.dim() == 1:
        return len(batch[model.main_input_name])
    shift = 1 if type(model).__name__.endswith("LMHeadModel") else 0
    return int((labels[:, shift:] != features.IGNORED).sum())


def last_evaluation(output):
    history = json.loads((output / "trainer_state.json").read_text())["log_history"]
    return [entry for entry in history if "eval_loss" in entry][-1]


def largest(ours, theirs):
    return (torch.as_tensor(ours, dtype=torch.float64) - theirs).abs().max().item()


def sequence_classification(found):
    logits = torch.stack(found.logits)
    ours = load_file(found.output / "eval_logits.safetensors")["logits"]
    predictions = found.predictions()
    names = [found.config.id2label[index] for index in logits.argmax(-1).tolist()]
    return {
        "logits": largest(ours, logits),
        "probabilities": largest([row["probabilities"] for row in predictions], logits.softmax(-1)),
        "other answers": others([row["prediction"] for row in predictions], names),
    }


def token_classification(found):
    differences, other = [], 0
    for row, example, logits in zip(found.predictions(), found.examples, found.logits, strict=True):
        places = [place for place, label in enumerate(example["labels"]) if label != features.IGNORED]
        best, classes = logits[places].softmax(-1).max(-1)
        differences.append(largest(row["probabilities"], best))
        other += others(row["prediction"], [found.config.id2label[index] for index in classes.tolist()])
    return {"probabilities": max(differences), "other answers": other}


def others(ours, theirs):
    return sum(one != other for one, other in zip(ours, theirs, strict=True))


def question_answering(found):
    """Whether each span has the logits that traind reports for it, and is the best span of its question."""
    best = json.loads((found.output / "nbest_predictions.json").read_text())
    texts = json.loads((found.output / "predictions.json").read_text())
    reported, behind = 0.0, 0.0
    windows = list(zip(found.examples, found.logits, strict=True))
    for row, prediction in zip(found.rows, found.predictions(), strict=True):
        candidate = best[row["id"]][0]
        span = prediction["start"], prediction["end"]
        if not texts[row["id"]] == candidate["text"] == prediction["prediction"] == row["context"][slice(*span)]:
            raise SystemExit(f"{row['id']}: the files give different answers")
        mine = [window for window in windows if window[0]["id"] == row["id"]]
        ours = torch.tensor([candidate["start_logit"], candidate["end_logit"]])
        reported = max(reported, min(largest(ours, logits) for logits in logits_of(span, mine)))
        behind = max(behind, (best_score(mine) - ours.sum()).item())
    return {"logits": reported, "behind the best": behind}


def logits_of(span, windows):
    """The scores of the tokens that the span begins and ends with, in each window that has them."""
    for example, logits in windows:
        offsets = example["offset_mapping"]
        first = [place for place in example["context"] if offsets[place][0] == span[0]]
        last = [place for place in example["context"] if offsets[place][1] == span[1]]
        yield from (torch.stack([logits[a, 0], logits[b, 1]]) for a in first for b in last)


def best_score(windows):
    """The largest sum of logits of a span of the context, tried as SQuAD's scripts do."""
    scores = []
    for example, logits in windows:
        starts, ends = (set(logits[:, side].topk(N_BEST).indices.tolist()) for side in range(2))
        context = set(example["context"])
        spans = [(a, b) for a in starts & context for b in ends & context if a <= b < a + ANSWER_TOKENS_MAX]
        scores += [logits[a, 0] + logits[b, 1] for a, b in spans]
    return max(scores)


def language_model(found):
    """The share of tokens whose label is the best; tokens are undecided where the two best are nearly equal."""
    shift = 1 if found.config.model_type == "gpt2" else 0
    right, tokens, undecided = 0, 0, 0
    for example, logits in zip(found.examples, found.logits, strict=True):
        labels = torch.tensor(example["labels"])[shift:]
        best = logits[: len(example["labels"]) - shift].topk(2)
        labelled = labels != features.IGNORED
        right += ((best.indices[:, 0] == labels) & labelled).sum().item()
        undecided += ((best.values[:, 0] - best.values[:, 1] < 1e-5) & labelled).sum().item()
        tokens += labelled.sum().item()
    difference = abs(found.evaluated["eval_accuracy"] - right / tokens)
    return {"accuracy": max(difference - undecided / tokens, 0.0)}


COMPARISONS = {
    "sequence-classification": sequence_classification,
    "token-classification": token_classification,
    "question-answering": question_answering,
    "masked-lm": language_model,
    "causal-lm": language_model,
    "seq2seq-lm": language_model,
    "image-classification": sequence_classification,
}


if __name__ == "__main__":
    main()
