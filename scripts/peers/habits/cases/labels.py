"""Labels of rows, and a model's classes."""

import random

from case import case
from cases.bases import TEXTS, with_classes
from cases.data_files import table
from features import labelled, of_texts
from rows import classified


@case
def labels_as_one_number_a_class():
    choose = random.Random(6)
    hot = [{**row, "label": [choose.randrange(2) for _ in range(3)]} for row in classified(30)]
    floats = [{**row, "label": [float(number) for number in row["label"]]} for row in hot]
    shared = {
        **TEXTS,
        "features": of_texts(label=lambda row: [float(number) for number in row["label"]]),
        "model": {"num_labels": 3, "problem_type": "multi_label_classification"},
    }
    return {
        "floats": {**shared, "rows": floats, "evaluated": floats[:13]},
        "integers": {**shared, "rows": hot, "evaluated": hot[:13]},
    }


@case
def class_numbers_of_a_model_with_names():
    names = ["animal", "fruit", "tool"]
    config = with_classes(*names)
    rows = classified(13, 31)
    only = {"do_train": False}
    shared = {**TEXTS, "config": config, "model": {}, "evaluates_only": True, "train": only}
    named = [{**row, "label": names[row["label"]]} for row in rows]
    number = labelled(int)
    return {
        "numbers": {**shared, "evaluated": rows},
        "strings": {**shared, "evaluated": [{**row, "label": str(row["label"])} for row in rows], "features": number},
        "names": {
            **shared,
            "rows": named,
            "evaluated": named,
            "features": labelled(names.index),
        },
    }


@case
def a_head_of_another_size():
    # More classes than the rows have: enough numbers to see how they are distributed.
    return {
        **TEXTS,
        "rows": classified(30, classes=5),
        "evaluated": classified(13, 31, classes=5),
        "model": {"num_labels": 500, "ignore_mismatched_sizes": True},
        "loading": {"ignore_mismatched_sizes": True},
        "is_drawn": True,
    }


def mapped(labels, **more):
    """Texts whose class numbers stand as `labels` in the file; the Trainer is given the numbers."""

    def relabelled(rows):
        return [{**row, "label": labels[row["label"]]} for row in rows]

    return {
        **TEXTS,
        "rows": relabelled(classified(30)),
        "evaluated": relabelled(classified(13, 31)),
        "features": labelled(labels.index),
        **more,
    }


@case
def labels_by_other_names():
    counted = {"model": {}}
    return {
        "names": mapped(["animal", "fruit", "tool"]),
        "names-without-count": mapped(["animal", "fruit", "tool"], **counted),
        "strings-of-numbers": mapped(["0", "1", "2"]),
        "stars": mapped([1, 2, 3], **counted),
        "gaps": mapped([2, 5, 10], **counted),
        "signs": mapped([-1, 0, 1], **counted),
        "booleans": mapped([False, True, True], config=with_classes("LABEL_0", "LABEL_1"), **counted),
        "config-out-of-order": mapped(
            ["tool", "animal", "fruit"], config=with_classes("tool", "animal", "fruit"), **counted
        ),
        "label-map": mapped(["no", "maybe", "yes"], data={**TEXTS["data"], "label_map": ["no", "maybe", "yes"]}),
    }


@case
def labels_that_cannot_be():
    def changed(label, **more):
        rows = classified(30)
        rows[4] = {**rows[4], "label": label}
        return {**TEXTS, "rows": rows, "trained": False, **more}

    unseen = [{**row, "label": 3} if index == 5 else row for index, row in enumerate(classified(13, 31))]
    return {
        "beyond-the-count": changed(3, refusal="num_labels"),
        "below-zero": changed(-1, refusal="label -1 is negative"),
        "missing": changed(None, refusal="no label"),
        "several": changed([0, 1], refusal="a list is not a class label"),
        "of-validation-alone": {**TEXTS, "evaluated": unseen, "trained": False, "model": {}, "refusal": "label"},
        # The Trainer trains these.
        "ignored": changed(-100, trained=True, refusal="label -100"),
        "one-class": mapped(["cat", "cat", "cat"], model={}, refusal="has the one label"),
        "not-a-number": {
            **changed("nan", trained=False),
            "file": "csv",
            "content": table(),
            "model": {},
            "refusal": "nan",
        },
    }


@case
def regression():
    choose = random.Random(7)

    def scored(rows, kind=float):
        return [{**row, "label": kind(round(choose.uniform(-2, 5), 2))} for row in rows]

    number = labelled(float)
    shared = {**TEXTS, "features": number, "model": {"num_labels": 1}, "config": with_classes("LABEL_0")}
    return {
        "floats": {**shared, "rows": scored(classified(30)), "evaluated": scored(classified(13, 31))},
        "integers": {**shared, "rows": scored(classified(30), int), "evaluated": scored(classified(13, 31), int)},
        "by-config": {
            **shared,
            "rows": scored(classified(30)),
            "evaluated": scored(classified(13, 31)),
            "config": {**with_classes("LABEL_0"), "problem_type": "regression"},
            "model": {},
        },
        "strings": {
            **shared,
            "rows": [{**row, "label": str(row["label"])} for row in scored(classified(30))],
            "evaluated": scored(classified(13, 31)),
        },
    }
