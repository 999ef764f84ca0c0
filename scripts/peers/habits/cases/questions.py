"""Question answering."""

from case import case
from cases.bases import NO_SEGMENTS, QUESTIONS
from features import of_questions, pad_to
from rows import questions


@case
def questions_at_natural_lengths():
    return {
        "": QUESTIONS,
        "two-cores": {**QUESTIONS, "resources": {"cores": 2}},
        "multiple": {**QUESTIONS, "collator": pad_to(8), "data": {**QUESTIONS["data"], "pad_to_multiple_of": 8}},
        "accumulated": {
            **QUESTIONS,
            "rows": questions(24),
            "features": of_questions(32, 4),
            "data": {**QUESTIONS["data"], "max_length": 32},
            "train": {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2},
        },
        "roberta": {
            **QUESTIONS,
            "fixture": "roberta-question-answering",
            "config": {"max_position_embeddings": 40, "pad_token_id": 0},
            "tokenizer": NO_SEGMENTS,
        },
        "distilbert": {**QUESTIONS, "fixture": "distilbert-question-answering", "tokenizer": NO_SEGMENTS},
    }


@case
def answers_of_questions():
    def changed(places):
        rows = questions(30)
        for index, change in places.items():
            rows[index] = {**rows[index], **change(rows[index])}
        return rows

    def moved(by):
        """The answer with a space more in front, or without the last letters."""

        def change(row):
            [start], [text] = row["answers"]["answer_start"], row["answers"]["text"]
            return {"answers": {"text": [text], "answer_start": [start + by]}}

        return change

    def with_space(row):
        [start], [text] = row["answers"]["answer_start"], row["answers"]["text"]
        if not start:
            return {}
        return {"answers": {"text": [" " + text], "answer_start": [start - 1]}}

    nothing = {"text": [], "answer_start": []}
    without = changed({index: lambda row: {"answers": nothing} for index in range(0, 30, 4)})
    second = {"data": {**QUESTIONS["data"], "version_2_with_negative": True}}
    several = changed({2: lambda row: {"answers": {key: values * 2 for key, values in row["answers"].items()}}})
    spaced = changed({index: lambda row: {"question": "  " + row["question"]} for index in range(5)})
    wide = [{**row, "context": row["context"].replace(" ", "  ")} for row in questions(30)]
    for row in wide:
        place = row["context"].index(row["answers"]["text"][0])
        row["answers"] = {**row["answers"], "answer_start": [place]}
    tight = {**QUESTIONS["data"], "max_length": 12, "doc_stride": 12}
    return {
        "none": {**QUESTIONS, **second, "rows": without},
        "none-unsaid": {**QUESTIONS, "rows": without},
        "spaces-in-front": {**QUESTIONS, "rows": changed(dict.fromkeys(range(30), with_space))},
        "off-by-one": {**QUESTIONS, "rows": changed({3: moved(1)}), "refusal": "is not in its context"},
        "beyond-the-context": {**QUESTIONS, "rows": changed({3: moved(1000)}), "refusal": "is not in its context"},
        "several": {**QUESTIONS, "rows": several},
        "questions-with-spaces": {**QUESTIONS, "rows": spaced},
        "contexts-with-spaces": {**QUESTIONS, "rows": wide},
        "stride-too-long": {
            **QUESTIONS,
            "features": of_questions(12, 12),
            "data": tight,
            "trained": False,
            "refusal": "doc_stride",
        },
    }
