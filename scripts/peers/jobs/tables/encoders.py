"""Jobs as users of run_glue, run_ner, run_qa and run_mlm run them: tasks, heads, labels and saving."""

import texts

from tables.base import ACCUMULATED, classes, of

ROWS, EVALUATED = texts.classified(22), texts.classified(9, seed=61)
NAMED = [{**row, "label": ["bad", "fair", "good"][row["label"]]} for row in ROWS]
SEVERAL, VALUED = texts.several(22), texts.valued(22)
MANY = {"num_labels": 4, "problem_type": "multi_label_classification"}
BY_STEPS = {"eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 2, "save_steps": 2, "max_steps": 8}
BEST = {**BY_STEPS, "load_best_model_at_end": True}
EPOCHS = {"max_steps": None, "num_train_epochs": 3, "eval_strategy": "epoch", "save_strategy": "epoch"}
WHOLE = {"whole_word_mask": True, "mlm_probability": 1.0}


def judged(**train):
    return classes(evaluated=EVALUATED, train=train)


CASES = {
    "metrics": judged(eval_strategy="epoch", num_train_epochs=2, max_steps=None),
    "loss-only": judged(eval_strategy="steps", eval_steps=2, prediction_loss_only=True),
    "evaluated-in-parts": judged(eval_strategy="steps", eval_steps=3, eval_accumulation_steps=1),
    "best-by-loss": judged(**BEST),
    "best-by-accuracy": judged(**BEST, metric_for_best_model="accuracy"),
    "best-by-accuracy-lower": judged(**BEST, metric_for_best_model="eval_accuracy", greater_is_better=False),
    "best-of-two-kept": judged(**BEST, save_total_limit=2),
    "best-of-one-kept": judged(**BEST, save_total_limit=1, metric_for_best_model="accuracy"),
    "best-saved-alone": judged(**{**BEST, "save_strategy": "best"}, metric_for_best_model="accuracy"),
    "best-by-epoch": judged(**EPOCHS, load_best_model_at_end=True),
    "saved-by-epoch-limited": judged(**EPOCHS, save_total_limit=2),
    "saved-models-alone": judged(**EPOCHS, save_only_model=True),
    "saved-by-fraction": judged(max_steps=8, save_strategy="steps", save_steps=0.25),
    "saved-between-evaluations": judged(**{**BEST, "save_steps": 4}),
    "stopped-early": judged(**{**BEST, "max_steps": 12}, early_stopping_patience=1, metric_for_best_model="accuracy"),
    "stopped-early-by-threshold": judged(
        **{**BEST, "max_steps": 12}, early_stopping_patience=2, early_stopping_threshold=0.5
    ),
    "warmup-ratio-and-steps": judged(max_steps=7, warmup_steps=0.3),
    "evaluated-late": judged(eval_strategy="steps", eval_steps=1, eval_delay=3),
    "evaluated-by-steps-logged-by-epoch": judged(
        max_steps=None, num_train_epochs=2, logging_strategy="epoch", eval_strategy="steps", eval_steps=1
    ),
    "drop-last": classes(train={"max_steps": None, "num_train_epochs": 2, "dataloader_drop_last": True}),
    "accumulated-unevenly": judged(**{**ACCUMULATED, "gradient_accumulation_steps": 4}),
    "accumulated-beyond-the-epoch": judged(**{**ACCUMULATED, "gradient_accumulation_steps": 16}),
    "min-rate": judged(
        lr_scheduler_type="cosine_with_min_lr", lr_scheduler_kwargs={"min_lr_rate": 0.1}, warmup_steps=1
    ),
    "stable-decay": judged(
        lr_scheduler_type="warmup_stable_decay", lr_scheduler_kwargs={"num_decay_steps": 2}, warmup_steps=2, max_steps=6
    ),
    "polynomial": judged(lr_scheduler_type="polynomial", lr_scheduler_kwargs={"power": 2.0, "lr_end": 1e-5}),
    "restarts": judged(lr_scheduler_type="cosine_with_restarts", lr_scheduler_kwargs={"num_cycles": 2}, max_steps=8),
    "rmsprop": judged(optim="rmsprop", optim_args="momentum=0.9", learning_rate=1e-4),
    "adagrad": judged(optim="adagrad", learning_rate=1e-2),
    "sgd-nesterov": judged(optim="sgd", optim_args="momentum=0.9, nesterov=true", learning_rate=0.1),
    "padded": classes(data={"max_length": 16, "pad_to_max_length": True}),
    "named-classes": classes(NAMED, evaluated=NAMED[:9]),
    "mapped-classes": classes(
        NAMED,
        data={"label_map": {"bad": "no", "fair": "yes", "good": "yes"}},
        model={"num_labels": None},
        spec={"labels": 2},
    ),
    "several-classes": classes(SEVERAL, evaluated=SEVERAL[:9], model=MANY, spec={"labels": 4}),
    "several-classes-in-integers": classes(
        [{**row, "label": [int(value) for value in row["label"]]} for row in SEVERAL], model=MANY, spec={"labels": 4}
    ),
    "several-classes-accumulated": classes(
        SEVERAL, model=MANY, spec={"labels": 4}, train={"gradient_accumulation_steps": 2}
    ),
    "values": classes(VALUED, evaluated=VALUED[:9], model={"num_labels": 1}, spec={"labels": 1}),
    "values-best": classes(
        VALUED,
        evaluated=VALUED[:9],
        model={"num_labels": 1},
        spec={"labels": 1},
        train={**BEST, "metric_for_best_model": "mse", "greater_is_better": False},
    ),
    "values-of-two": classes(
        [{**row, "label": [row["label"], -row["label"]]} for row in VALUED],
        model={"num_labels": 2, "problem_type": "regression"},
        spec={"labels": 2},
    ),
    "other-head": classes(model={"num_labels": 3, "ignore_mismatched_sizes": True}, spec={"labels": 5}),
    "new-head": classes(spec={"without": True}),
    "new-head-of-roberta": classes(family="roberta", spec={"without": True}),
    "new-head-of-llama": classes(family="llama", spec={"without": True}),
    "new-head-of-words": of(
        "token-classification", texts.tagged(18), "bert", model={"num_labels": 3}, spec={"without": True}
    ),
    "new-head-of-answers": of(
        "question-answering",
        texts.questions(18),
        "distilbert",
        data={"max_length": 24, "doc_stride": 4},
        spec={"without": True},
    ),
    "pairs": classes(texts.pairs(22), data={"text_pair": "pair"}),
    "pairs-cut": classes(texts.pairs(22), data={"text_pair": "pair", "max_length": 10}),
    "pairs-of-roberta": classes(texts.pairs(22), family="roberta", data={"text_pair": "pair", "max_length": 40}),
    "pairs-of-distilbert": classes(texts.pairs(22), family="distilbert", data={"text_pair": "pair"}),
    "dropout-overridden": classes(model={"config_overrides": {"classifier_dropout": 0.0}}),
    "frozen-body": classes(train={"freeze": ["bert"]}),
    "frozen-embeddings": classes(train={"freeze": ["embeddings", "encoder.layer.0"]}),
    "words-with-spaces": of(
        "token-classification",
        texts.tagged(18),
        "roberta",
        model={"num_labels": 3},
        spec={"tokenizer": {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}},
    ),
    "words-all-tokens": of(
        "token-classification", texts.tagged(18), "bert", model={"num_labels": 3}, data={"label_all_tokens": True}
    ),
    "answers": of("question-answering", texts.questions(18), "bert", data={"max_length": 24, "doc_stride": 4}),
    "masks-line-by-line": of("masked-lm", texts.lines(20), "bert", data={"line_by_line": True, **WHOLE}),
    "masks-in-blocks": of("masked-lm", texts.lines(40), "distilbert", data={"block_size": 8, **WHOLE}),
    "blocks-of-gpt2": of("causal-lm", texts.plain(30), "gpt2", data={"block_size": 16}, evaluated=texts.plain(12, 62)),
    "blocks-of-llama": of("causal-lm", texts.plain(30), "llama", data={"block_size": 16}, train=ACCUMULATED),
    "resumed": classes(train={"max_steps": 8, "save_strategy": "steps", "save_steps": 3}, more={"resume": 3}),
    "resumed-in-an-epoch": classes(
        train={"max_steps": None, "num_train_epochs": 3, "save_strategy": "steps", "save_steps": 4}, more={"resume": 8}
    ),
    "resumed-evaluated": classes(evaluated=EVALUATED, train=BEST, more={"resume": 4}),
}

WITHOUT_A_TABLE = ["modernbert", "nomic_bert", "gte", "deberta-v2"]
CASES |= {
    f"beyond-the-positions-of-{family.replace('_', '-')}": classes(
        family=family, data={"max_length": 40}, spec={"config": {"max_position_embeddings": 6}}
    )
    for family in WITHOUT_A_TABLE
}

# Long texts beside short ones, whose padding the layers leave out; decoders classify by the last token.
UNEVEN = [
    {**row, "text": " ".join([row["text"]] * (1 + 4 * (at % 8 == 0)))} for at, row in enumerate(texts.classified(64))
]
LEFT = {"tokenizer": {"padding_side": "left"}}
CASES |= {
    f"behind-padding-of-{family}": classes(
        UNEVEN, family=family, spec=LEFT, data={"max_length": 64}, train={"per_device_train_batch_size": 16}
    )
    for family in ["qwen3", "gpt2", "bert"]
}
CASES["behind-padding-without-a-token"] = classes(
    [*UNEVEN[:15], {"text": "", "label": 1}], family="llama", spec=LEFT, data={"max_length": 64}
)
