"""Cases of each task, in short: rows, and what is not usual of their job."""

import texts

from case import Case

# Whole epochs end with a group of batches that is not full.
ACCUMULATED = {"max_steps": None, "num_train_epochs": 2, "gradient_accumulation_steps": 2}


def of(task, rows, family="llama", evaluated=None, files=None, spec=None, more=None, **given):
    """A case; `spec` are more of its model, `more` fields of the case, and the rest sections of the job."""
    kept = {"train.jsonl": rows} if rows is not None else {}
    if evaluated is not None:
        kept["validation.jsonl"] = evaluated
    model = {"family": family, **(spec or {})}
    job = {**given, "model": {"task": task, **given.get("model", {})}}
    return Case(model=model, job=job, files={**kept, **(files or {})}, **(more or {}))


def sft(rows, **given):
    return of("sft", rows, **given)


def dpo(rows=None, **given):
    return of("dpo", texts.compared(14) if rows is None else rows, **given)


def seq2seq(rows=None, family="t5", **given):
    return of("seq2seq-lm", texts.translated(14) if rows is None else rows, family=family, **given)


def pictures(files, labels, family="vit", **given):
    """`files` are images by name; rows have their paths and labels."""
    rows = [{"image": name, "label": label} for name, label in zip(files, labels, strict=True)]
    given["data"] = {"augmentation": False, **given.get("data", {})}
    return of("image-classification", rows, family=family, files=files, model={"num_labels": 3}, **given)


def classes(rows=None, family="bert", **given):
    model = {"num_labels": 3, **given.pop("model", {})}
    return of(
        "sequence-classification", texts.classified(22) if rows is None else rows, family=family, model=model, **given
    )
