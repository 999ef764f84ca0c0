"""Common variations of data, tokenizers and configs: each is trained with Hugging Face's Trainer on the CPU as
transformers' example scripts do it, and written down for traind to follow.

A case is a folder with a tiny model, rows, `job.json` (what traind is given) and `trainer.json` (what the Trainer logged).

usage: habits.py OUT_DIR [NAME...]     all where none is named
       habits.py --list
"""

import csv
import io
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

FIXTURES = Path(__file__).parents[2] / "xla-backend" / "models" / "fixtures"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    *["cat", "dog", "cow", "owl", "fox", "bee", "apple", "pear", "plum", "fig", "lime", "kiwi", "hammer", "saw"],
    *["drill", "file", "wrench", "clamp", "the", "a", "is", "was", "big", "small", "old", "new", "red", "green"],
    *["in", "on", "under", "near", "house", "tree", "box", "road", "and", "or", "not", "?", "##s", "##ed", "##ing"],
]
IGNORED = -100
TASKS = {
    "sequence-classification": transformers.AutoModelForSequenceClassification,
    "token-classification": transformers.AutoModelForTokenClassification,
    "question-answering": transformers.AutoModelForQuestionAnswering,
    "masked-lm": transformers.AutoModelForMaskedLM,
    "causal-lm": transformers.AutoModelForCausalLM,
}


@dataclass
class Case:
    """`config` and `tokenizer` change the model's files, `data`, `model` and `train` are sections of the job."""

    name: str
    task: str
    rows: list
    evaluated: list
    features: object
    fixture: str = ""
    collator: object = None
    config: dict = field(default_factory=dict)
    tokenizer: dict = field(default_factory=dict)
    tokenizer_file: object = None
    model: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)
    train: dict = field(default_factory=dict)
    arguments: dict = field(default_factory=dict)
    resources: dict = field(default_factory=dict)
    # Options that transformers needs and the job does not, such as `ignore_mismatched_sizes`.
    loading: dict = field(default_factory=dict)
    file: str = "jsonl"
    # Written in place of the rows, which the Trainer is given all the same.
    content: object = None
    # The weights of the fixture, though the config is changed.
    weights: str = ""
    evaluates_only: bool = False

    def __post_init__(self):
        self.fixture = self.fixture or f"bert-{self.task}"


CASES = {}


def case(function):
    """Registers a function that returns a case without its name, or several by their names."""
    made = function()
    name = function.__name__.replace("_", "-")
    for more, one in ({"": made} if "task" in made else made).items():
        full = f"{name}-{more}" if more else name
        CASES[full] = Case(full, **one)
    return function


# Rows


def sentence(choose, least=2, most=9):
    return " ".join(choose.choice(WORDS[:38]) for _ in range(choose.randint(least, most)))


def classified(count, seed=1, classes=3):
    choose = random.Random(seed)
    return [{"text": sentence(choose), "label": choose.randrange(classes)} for _ in range(count)]


def pairs(count, seed=2):
    choose = random.Random(seed)
    return [{"text": sentence(choose), "pair": sentence(choose), "label": choose.randrange(3)} for _ in range(count)]


def questions(count, seed=3):
    choose, rows = random.Random(seed), []
    for index in range(count):
        words = sentence(choose, 3, 20).split()
        place = choose.randrange(len(words))
        start = len(" ".join(words[:place])) + (1 if place else 0)
        answers = {"text": [words[place]], "answer_start": [start]}
        question = f"is {sentence(choose, 1, 4)} ?"
        rows.append({"id": f"q{index}", "question": question, "context": " ".join(words), "answers": answers})
    return rows


def tagged(count, seed=4):
    choose, rows = random.Random(seed), []
    for _ in range(count):
        words = sentence(choose).split()
        rows.append({"tokens": words, "labels": [len(word) % 3 for word in words]})
    return rows


def lines(count, seed=5):
    choose = random.Random(seed)
    suffixes = ["", "s", "ed", "ing"]
    return [
        {"text": " ".join(word + choose.choice(suffixes) for word in sentence(choose).split())} for _ in range(count)
    ]


# Features, as the example scripts make them


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


# The cases

QUESTIONS = {
    "task": "question-answering",
    "rows": questions(30),
    "evaluated": questions(13, 33),
    "features": of_questions(),
    "collator": pad,
    "data": {"max_length": 24, "doc_stride": 4, "id": "id"},
}
TEXTS = {
    "task": "sequence-classification",
    "rows": classified(30),
    "evaluated": classified(13, 31),
    "features": of_texts(),
    "collator": pad,
    "model": {"num_labels": 3},
    "data": {"max_length": 32},
}
PAIRS = {
    **TEXTS,
    "rows": pairs(30),
    "evaluated": pairs(13, 32),
    "features": of_texts("pair"),
    "data": {"text_pair": "pair", "max_length": 32},
}
TAGS = {
    "task": "token-classification",
    "rows": tagged(30),
    "evaluated": tagged(13, 34),
    "features": of_words,
    "collator": pad_with_labels,
    "model": {"num_labels": 3},
    "data": {"max_length": 32},
    # The Trainer's loss of an evaluation is a mean of batches, ours one of tokens: the same for one batch.
    "train": {"per_device_eval_batch_size": 16},
}
LEFT = {"padding_side": "left"}
# As the tokenizers of families without segments.
NO_SEGMENTS = {"model_input_names": ["input_ids", "attention_mask"]}


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
def tokenizers_that_give_less():
    names = ["input_ids", "attention_mask"]
    return {
        "no-segments": {**PAIRS, "tokenizer": {"model_input_names": names}},
        "class-without-segments": {**PAIRS, "tokenizer": {"tokenizer_class": "PreTrainedTokenizerFast"}},
        "no-attention-mask": {**PAIRS, "tokenizer": {"model_input_names": ["input_ids", "token_type_ids"]}},
    }


GPT2 = {
    "fixture": "gpt2-sequence-classification",
    "config": {"n_positions": 32, "pad_token_id": 0},
    "tokenizer": {"tokenizer_class": "PreTrainedTokenizerFast"},
}


def padded_left():
    tokenizer = word_pieces()
    tokenizer.enable_padding(direction="left", pad_id=0, pad_token="[PAD]")
    return tokenizer


@case
def padding_on_the_left():
    roberta = {
        "fixture": "roberta-sequence-classification",
        "config": {"max_position_embeddings": 40, "pad_token_id": 0},
        "tokenizer": {**LEFT, **NO_SEGMENTS},
    }
    return {
        "bert": {**TEXTS, "tokenizer": LEFT},
        "bert-two-cores": {**TEXTS, "tokenizer": LEFT, "resources": {"cores": 2}},
        "bert-words": {**TAGS, "tokenizer": LEFT},
        "roberta": {**TEXTS, **roberta},
        "gpt2": {**TEXTS, **GPT2, "tokenizer": {**GPT2["tokenizer"], **LEFT}},
        "tokenizer-json": {**TEXTS, "tokenizer_file": padded_left},
    }


@case
def whole_words_at_the_start_of_a_block():
    def collator(tokenizer):
        kind = transformers.DataCollatorForLanguageModeling
        return kind(
            tokenizer, whole_word_mask=True, mlm_probability=1.0, mask_replace_prob=1.0, random_replace_prob=0.0
        )

    given = {"return_special_tokens_mask": True, "return_offsets_mapping": True}
    return {
        "task": "masked-lm",
        "rows": lines(60),
        "evaluated": lines(30, 35),
        "features": of_blocks(8, **given),
        "collator": collator,
        "data": {"block_size": 8, "whole_word_mask": True, "mlm_probability": 1.0},
        "arguments": {"remove_unused_columns": False},
    }


@case
def state_of_the_trainer():
    counted = {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 2}
    return {
        "max-steps": {**TEXTS, "train": {**counted, "max_steps": 7}},
        "epochs": {**TEXTS, "train": {**counted, "num_train_epochs": 2.4}},
        "evaluated": {**TEXTS, "train": {**counted, "max_steps": 7, "eval_strategy": "epoch"}},
    }


@case
def texts_that_are_empty():
    def emptied(rows, *columns):
        emptied = {index: {column: value for column in columns} for index, value in [(1, ""), (6, None), (11, "")]}
        return [row | emptied.get(index, {}) for index, row in enumerate(rows)]

    def without_contexts(rows):
        nothing = {"text": [], "answer_start": []}
        changed = {2: {"question": ""}, 5: {"context": "", "answers": nothing}, 7: {"question": "", "context": ""}}
        changed[7]["answers"] = nothing
        return [row | changed.get(index, {}) for index, row in enumerate(rows)]

    return {
        "first": {**TEXTS, "rows": emptied(classified(30), "text")},
        "second": {**PAIRS, "rows": emptied(pairs(30), "pair")},
        "both": {**PAIRS, "rows": emptied(pairs(30), "text", "pair")},
        "questions": {**QUESTIONS, "rows": without_contexts(questions(30))},
        "gpt2": {**TEXTS, **GPT2, "rows": emptied(classified(30), "text")},
    }


@case
def class_numbers_of_a_model_with_names():
    names = ["animal", "fruit", "tool"]
    config = {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}
    rows = classified(13, 31)
    only = {"do_train": False}
    shared = {**TEXTS, "config": config, "model": {}, "evaluates_only": True, "train": only}
    named = [{**row, "label": names[row["label"]]} for row in rows]
    number = of_texts(label=lambda row: int(row["label"]))
    return {
        "numbers": {**shared, "evaluated": rows},
        "strings": {**shared, "evaluated": [{**row, "label": str(row["label"])} for row in rows], "features": number},
        "names": {
            **shared,
            "rows": named,
            "evaluated": named,
            "features": of_texts(label=lambda row: names.index(row["label"])),
        },
    }


@case
def activation_functions():
    names = ["gelu_fast", "quick_gelu", "gelu_10", "gelu_accurate", "mish", "relu2", "relu6", "leaky_relu", "sigmoid"]
    names += ["linear", "laplace", "hardswish", "gelu_python_tanh", "sqrtsoftplus"]
    return {name.replace("_", "-"): {**TEXTS, "config": {"hidden_act": name}} for name in names}


def masked(tokenizer):
    return transformers.DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=1.0, mask_replace_prob=1.0, random_replace_prob=0.0
    )


WHOLE = {"whole_word_mask": True, "mlm_probability": 1.0}
BLOCKS = {
    "task": "masked-lm",
    "rows": lines(60),
    "evaluated": lines(30, 35),
    "features": of_blocks(8, return_special_tokens_mask=True),
    "collator": masked,
    "data": {"block_size": 8, **WHOLE},
    "train": {"per_device_eval_batch_size": 32},
}
CAUSAL = {
    "task": "causal-lm",
    "rows": lines(60),
    "evaluated": lines(30, 35),
    "features": of_causal_blocks(8),
    "collator": as_they_are,
    "data": {"block_size": 8},
}


@case
def masked_language_models():
    untied = {"tie_word_embeddings": False}
    roberta = {"max_position_embeddings": 40, "pad_token_id": 0}
    return {
        "untied": {**BLOCKS, "config": untied},
        "untied-roberta": {
            **BLOCKS,
            "fixture": "roberta-masked-lm",
            "config": {**roberta, **untied},
            "tokenizer": NO_SEGMENTS,
        },
        "untied-distilbert": {
            **BLOCKS,
            "fixture": "distilbert-masked-lm",
            "config": untied,
            "tokenizer": NO_SEGMENTS,
        },
        "sinusoidal": {
            **BLOCKS,
            "fixture": "distilbert-masked-lm",
            "config": {"sinusoidal_pos_embds": True},
            "tokenizer": NO_SEGMENTS,
        },
    }


@case
def encoders_that_are_decoders():
    decoder = {"is_decoder": True}
    positions = {"max_position_embeddings": 40, "pad_token_id": 0}
    return {
        "bert": {**CAUSAL, "fixture": "bert-masked-lm", "config": decoder},
        "roberta": {
            **CAUSAL,
            "fixture": "roberta-masked-lm",
            "config": {**decoder, **positions},
            "tokenizer": NO_SEGMENTS,
        },
        "bert-classifier": {**TEXTS, "config": decoder},
    }


@case
def heads_of_gpt2():
    of = GPT2["tokenizer"]
    config = {**GPT2["config"], "classifier_dropout": 0.0}
    without = {**GPT2["config"], "pad_token_id": "absent"}
    none = {**of, "pad_token": None}
    one = {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 1, "num_train_epochs": 1}
    end = {**of, "pad_token": "[SEP]"}
    segments = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return {
        "words": {**TAGS, **GPT2, "config": config},
        "questions": {**QUESTIONS, **GPT2},
        "causal": {**CAUSAL, **GPT2, "config": {"n_positions": 32}, "fixture": "gpt2-causal-lm"},
        "pad-token-of-the-tokenizer": {**TEXTS, **GPT2, "config": without},
        "another-pad-token": {**TEXTS, **GPT2, "tokenizer": end},
        "without-pad-token": {
            **TEXTS,
            **GPT2,
            "config": without,
            "tokenizer": none,
            "train": one,
            "collator": as_they_are,
        },
        "segments-as-tokens": {**PAIRS, **GPT2, "tokenizer": {**of, **segments}},
    }


@case
def lengths_beyond_the_positions():
    long = [{**row, "text": " ".join([row["text"]] * 8)} for row in classified(20)]
    cut = {**TEXTS, "rows": long, "evaluated": long[:9], "data": {}}
    return {"tokenizer": {**cut, "tokenizer": {"model_max_length": 512}}}


@case
def encodings():
    def table(encoding):
        def content(rows):
            out = io.StringIO()
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)
            return out.getvalue().encode(encoding)

        return content

    rows = [{**row, "text": row["text"] + " caf\u00e9 na\u00efve"} for row in classified(30)]
    shared = {**TEXTS, "rows": rows, "evaluated": rows[:13], "file": "csv"}
    names = ["latin-1", "utf-16", "cp1252"]
    return {name: {**shared, "content": table(name), "data": {**TEXTS["data"], "encoding": name}} for name in names}


@case
def a_head_of_another_size():
    # What is drawn for the head differs, and with a rate of 0 nothing else does: the head is zero on both sides.
    return {
        **TEXTS,
        "rows": classified(30, classes=5),
        "evaluated": classified(13, 31, classes=5),
        "model": {"num_labels": 5, "ignore_mismatched_sizes": True},
        "config": {"initializer_range": 1e-30},
        "loading": {"ignore_mismatched_sizes": True},
        "weights": "fixture",
        "train": {"learning_rate": 0.0},
    }


def run(case, folder):
    """Trains, evaluates and writes the folder down."""
    folder.mkdir(parents=True)
    model_dir = folder / "model"
    write_model(case, model_dir)
    for name, rows in [("train", case.rows), ("validation", case.evaluated)]:
        content = case.content(rows) if case.content else jsonl(rows)
        path = folder / f"{name}.{case.file}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    write_json(folder / "job.json", job(case))
    write_json(folder / "trainer.json", train(case, model_dir))


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def settings(case):
    """Both sides' arguments; `arguments` are the Trainer's alone."""
    return {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "seed": 42,
        **case.train,
    }


def job(case):
    sections = settings(case)
    cores = case.resources.get("cores", 1)
    for key in ["per_device_train_batch_size", "per_device_eval_batch_size"]:
        sections[key] //= cores
    return {
        "model": {"task": case.task, **case.model},
        "data": {"train": f"train.{case.file}", "validation": f"validation.{case.file}", **case.data},
        "train": {"train_sampling_strategy": "sequential", "save_strategy": "no", **sections},
        "resources": {"platform": "cpu", "cores": cores},
    }


def write_model(case, folder):
    source = FIXTURES / case.fixture
    folder.mkdir()
    config = json.loads((source / "config.json").read_text()) | case.config
    config = {key: value for key, value in config.items() if value != "absent"}
    if case.config and not case.weights:
        # Its weights may be of other shapes.
        kind = transformers.CONFIG_MAPPING[config["model_type"]]
        transformers.set_seed(0)
        TASKS[case.task].from_config(kind.from_dict(dict(config))).save_pretrained(folder)
    else:
        shutil.copy(source / "model.safetensors", folder)
    write_json(folder / "config.json", config)
    tokenizer = (case.tokenizer_file or word_pieces)()
    tokenizer.save(str(folder / "tokenizer.json"))
    named = dict(zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], SPECIAL, strict=True))
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": 32, **named, **case.tokenizer}
    write_json(folder / "tokenizer_config.json", {key: value for key, value in settings.items() if value != "absent"})


def word_pieces():
    """BERT's tokenizer with 50 tokens or fewer."""
    vocabulary = {token: index for index, token in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def train(case, model_dir):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
    labels = {"num_labels": case.model["num_labels"]} if "num_labels" in case.model else {}
    problem = {"problem_type": case.model["problem_type"]} if "problem_type" in case.model else {}
    model = TASKS[case.task].from_pretrained(model_dir, **labels, **problem, **case.loading)
    collator = (case.collator or pad)(tokenizer)
    with tempfile.TemporaryDirectory(prefix="trainer.") as scratch:
        arguments = transformers.TrainingArguments(
            scratch, train_sampling_strategy="sequential", save_strategy="no", report_to="none", use_cpu=True,
            disable_tqdm=True, **{"do_train": True} | settings(case) | case.arguments,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model, arguments, collator, case.features(case.rows, tokenizer),
            case.features(case.evaluated, tokenizer), processing_class=tokenizer, compute_loss_func=loss_of(case),
        )  # fmt: skip
        trainer.remove_callback(transformers.PrinterCallback)
        if case.evaluates_only:
            trainer.evaluate()
            return {"log_history": trainer.state.log_history}
        trainer.train()
        if arguments.eval_strategy == "no":
            trainer.evaluate()
        trainer.save_state()
        state = json.loads((Path(scratch) / "trainer_state.json").read_text())
    return state


def loss_of(case):
    """The Trainer counts the labels of all batches of a step; models for classification take no notice of that."""
    if case.train.get("gradient_accumulation_steps", 1) == 1 or not case.task.endswith("-classification"):
        return None

    def mean_over_labels(outputs, labels, num_items_in_batch):
        logits = outputs.logits
        total = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), reduction="sum")
        return total / num_items_in_batch

    return mean_over_labels


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return
    out, *names = sys.argv[1:]
    failed = []
    for name in names or CASES:
        torch.manual_seed(0)
        try:
            run(CASES[name], Path(out) / name)
        except BaseException as error:  # tokenizers panics
            if isinstance(error, KeyboardInterrupt):
                raise
            print(f"{name}: the Trainer does not train it", file=sys.stderr)
            traceback.print_exc()
            failed.append(name)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
