"""Features as transformers' example scripts make them, and their collators."""

import transformers

IGNORED = -100


def of_texts(pair=None, max_length=32, label=lambda row: row["label"]):
    def features(rows, tokenizer):
        made = []
        for row in rows:
            texts = [row["text"] or "", *([row[pair] or ""] if pair else [])]
            # As `datasets.map` hands them over: alone, an empty second text would be none.
            encoded = tokenizer(*([text] for text in texts), truncation=True, max_length=max_length)
            made.append({key: values[0] for key, values in encoded.items()} | {"labels": label(row)})
        return made

    return features


def labelled(number):
    """Texts whose class is `number` of their label."""
    return of_texts(label=lambda row: number(row["label"]))


def of_questions(max_length=24, stride=4):
    def features(rows, tokenizer):
        made = []
        for row in rows:
            encoded = tokenizer(
                [row["question"].lstrip()], [row["context"]], truncation="only_second", max_length=max_length,
                stride=stride, return_overflowing_tokens=True, return_offsets_mapping=True,
            )  # fmt: skip
            start, end = -1, -1
            if row["answers"]["text"]:
                start = row["answers"]["answer_start"][0]
                end = start + len(row["answers"]["text"][0])
            for index in range(len(encoded["input_ids"])):
                offsets, parts = encoded["offset_mapping"][index], encoded.sequence_ids(index)
                ids = encoded["input_ids"][index]
                cls = ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else 0
                context = [place for place, part in enumerate(parts) if part == 1]
                first, last = cls, cls
                if start >= 0 and context and offsets[context[0]][0] <= start and offsets[context[-1]][1] >= end:
                    first = max(place for place in context if offsets[place][0] <= start)
                    last = min(place for place in context if offsets[place][1] >= end)
                keys = [key for key in tokenizer.model_input_names if key in encoded]
                positions = {"start_positions": first, "end_positions": last}
                made.append({key: encoded[key][index] for key in keys} | positions)
        return made

    return features


def of_words(rows, tokenizer):
    made = []
    for row in rows:
        encoded = tokenizer(row["tokens"], is_split_into_words=True, truncation=True, max_length=32)
        labels, previous = [], None
        for word in encoded.word_ids():
            labels.append(IGNORED if word is None or word == previous else row["labels"][word])
            previous = word
        made.append({**encoded, "labels": labels})
    return made


def of_blocks(block_size, **given):
    """`group_texts` of run_mlm and run_clm."""

    def features(rows, tokenizer):
        texts = [tokenizer(row["text"], **given) for row in rows]
        joined = {key: sum((text[key] for text in texts), []) for key in texts[0]}
        total = len(joined["input_ids"]) // block_size * block_size
        starts = range(0, total, block_size)
        return [{key: values[start : start + block_size] for key, values in joined.items()} for start in starts]

    return features


def of_causal_blocks(block_size):
    made = of_blocks(block_size)
    return lambda rows, tokenizer: [{**block, "labels": list(block["input_ids"])} for block in made(rows, tokenizer)]


def pad(tokenizer):
    return transformers.DataCollatorWithPadding(tokenizer)


def pad_to(multiple):
    return lambda tokenizer: transformers.DataCollatorWithPadding(tokenizer, pad_to_multiple_of=multiple)


def pad_with_labels(tokenizer):
    return transformers.DataCollatorForTokenClassification(tokenizer)


def as_they_are(tokenizer):
    return transformers.default_data_collator


def masked(tokenizer):
    return transformers.DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=1.0, mask_replace_prob=1.0, random_replace_prob=0.0
    )
