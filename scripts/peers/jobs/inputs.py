"""Rows as transformers' example scripts prepare them, by the keys of a job's section `data`."""

import json

import transformers

import features

MANY = "multi_label_classification"


def sequence_classification(rows, tokenizer, data, folder, job):
    text, pair, label = data.get("text", "text"), data.get("text_pair"), data.get("label", "label")
    numbers = floats if job["model"].get("problem_type") == MANY else numbering(rows, data, label)
    return [encoded(row, tokenizer, text, pair, data) | {"labels": numbers(row[label])} for row in rows]


def floats(values):
    return [float(value) for value in values]


def encoded(row, tokenizer, text, pair, data):
    # As `datasets.map` hands them over: alone, an empty second text would be none.
    columns = [[row[name] or ""] for name in ([text, pair] if pair else [text])]
    padding = "max_length" if data.get("pad_to_max_length") else False
    made = tokenizer(*columns, truncation=True, padding=padding, max_length=data.get("max_length", 64))
    return {key: values[0] for key, values in made.items()}


def numbering(rows, data, label):
    """The number of a label: a class's in the order of names, or the label itself."""
    if "label_map" in data:
        classes = list(dict.fromkeys(data["label_map"].values()))
        return lambda value: classes.index(data["label_map"][value])
    if isinstance(rows[0][label], str):
        names = sorted({row[label] for row in rows})
        return names.index
    return lambda value: value


def token_classification(rows, tokenizer, data, folder, job):
    if json.loads((folder / "model" / "config.json").read_text())["model_type"] in ("gpt2", "roberta"):
        # As run_ner loads them.
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model", add_prefix_space=True)
    made = []
    for row in rows:
        words = tokenizer(
            row["tokens"], is_split_into_words=True, truncation=True, max_length=data.get("max_length", 64)
        )
        labels, previous = [], None
        for word in words.word_ids():
            repeated = word == previous and not data.get("label_all_tokens")
            labels.append(features.IGNORED if word is None or repeated else row["labels"][word])
            previous = word
        made.append({**words, "labels": labels})
    return made


def question_answering(rows, tokenizer, data, folder, job):
    return features.of_questions(data.get("max_length", 64), data.get("doc_stride", 128))(rows, tokenizer)


def masked_lm(rows, tokenizer, data, folder, job):
    if data.get("line_by_line"):
        options = {"truncation": True, "max_length": data.get("max_length", 64), "return_special_tokens_mask": True}
        return [dict(tokenizer(row["text"], **options)) for row in rows if row["text"].strip()]
    return features.of_blocks(data["block_size"], return_special_tokens_mask=True)(rows, tokenizer)


def causal_lm(rows, tokenizer, data, folder, job):
    return features.of_causal_blocks(data["block_size"])(rows, tokenizer)


def seq2seq_lm(rows, tokenizer, data, folder, job):
    source, target = (lambda row: row[data.get("source", "source")]), (lambda row: row[data.get("target", "target")])
    if "source_lang" in data:
        codes = [data["source_lang"], data["target_lang"]]
        source, target = (lambda row, code=code: row["translation"][code.split("_")[0]] for code in codes)
        if hasattr(tokenizer, "set_src_lang_special_tokens"):
            tokenizer.src_lang, tokenizer.tgt_lang = codes
    longest = data.get("max_target_length", 128)
    padding = "max_length" if data.get("pad_to_max_length") else False
    made = []
    for row in rows:
        text = data.get("source_prefix", "") + source(row)
        read = tokenizer(text, truncation=True, padding=padding, max_length=data.get("max_source_length", 64))
        labels = tokenizer(text_target=target(row), truncation=True, padding=padding, max_length=longest)["input_ids"]
        if padding and data.get("ignore_pad_token_for_loss", True):
            labels = [token if token != tokenizer.pad_token_id else features.IGNORED for token in labels]
        made.append({**read, "labels": labels})
    return made


def image_classification(rows, tokenizer, data, folder, job):
    from PIL import Image, ImageOps

    processor = transformers.AutoImageProcessor.from_pretrained(folder / "model", backend="pil")
    numbers, made = numbering(rows, data, "label"), []
    for row in rows:
        image = ImageOps.exif_transpose(Image.open(folder / row["image"])).convert("RGB")
        pixels = processor(image, return_tensors="pt")["pixel_values"][0]
        made.append({"pixel_values": pixels, "labels": numbers(row["label"])})
    return made


TASKS = {
    "sequence-classification": sequence_classification,
    "token-classification": token_classification,
    "question-answering": question_answering,
    "masked-lm": masked_lm,
    "causal-lm": causal_lm,
    "seq2seq-lm": seq2seq_lm,
    "image-classification": image_classification,
}


def collator(task, tokenizer, model, data):
    multiple = data.get("pad_to_multiple_of")
    if task in ("image-classification", "causal-lm"):
        return transformers.default_data_collator
    if task == "seq2seq-lm":
        ignored = features.IGNORED if data.get("ignore_pad_token_for_loss", True) else tokenizer.pad_token_id
        return transformers.DataCollatorForSeq2Seq(
            tokenizer, model, label_pad_token_id=ignored, pad_to_multiple_of=multiple
        )
    if task == "token-classification":
        return transformers.DataCollatorForTokenClassification(tokenizer, pad_to_multiple_of=multiple)
    if task == "masked-lm":
        return features.masked(tokenizer)
    return transformers.DataCollatorWithPadding(tokenizer, pad_to_multiple_of=multiple)
