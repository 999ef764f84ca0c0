"""Jobs as users of Seq2SeqTrainer, run_summarization and run_translation run them."""

import texts

from tables.base import ACCUMULATED, seq2seq

ROWS, EVALUATED = texts.translated(14), texts.translated(7, 51)
LANGUAGES = [{"translation": {"en": row["source"], "ro": row["target"]}} for row in ROWS]
GENERATED = {"predict_with_generate": True, "eval_strategy": "steps", "eval_steps": 2, "generation_max_length": 12}


def generating(family="t5", **train):
    return seq2seq(family=family, evaluated=EVALUATED, train={**GENERATED, "max_steps": 4, **train})


CASES = {
    "plain": seq2seq(),
    "prefix": seq2seq(data={"source_prefix": "summarize: "}),
    "named-columns": seq2seq(
        [{"document": row["source"], "summary": row["target"]} for row in ROWS],
        data={"source": "document", "target": "summary"},
    ),
    "truncated": seq2seq(data={"max_source_length": 16, "max_target_length": 8}),
    "padded": seq2seq(data={"max_source_length": 32, "max_target_length": 24, "pad_to_max_length": True}),
    "padding-counts": seq2seq(data={"ignore_pad_token_for_loss": False}),
    "padding-counts-padded": seq2seq(
        data={"ignore_pad_token_for_loss": False, "max_target_length": 32, "pad_to_max_length": True}
    ),
    "padded-to-a-multiple": seq2seq(data={"pad_to_multiple_of": 8}),
    "smoothed": seq2seq(train={"label_smoothing_factor": 0.1}),
    "translated": seq2seq(LANGUAGES, data={"source_lang": "en", "target_lang": "ro"}),
    "bart": seq2seq(family="bart", evaluated=EVALUATED),
    "mbart": seq2seq(family="mbart", evaluated=EVALUATED),
    "mt5": seq2seq(family="mt5", evaluated=EVALUATED),
    "bart-accumulated": seq2seq(family="bart", train=ACCUMULATED),
    "bart-smoothed": seq2seq(family="bart", train={"label_smoothing_factor": 0.2}),
    "lora": seq2seq(peft={"method": "lora", "r": 4}, train={"learning_rate": 1e-2}),
    "lora-bart": seq2seq(family="bart", peft={"method": "lora", "target_modules": ["q_proj", "fc1"]}),
    "adafactor": seq2seq(train={"optim": "adafactor"}),
    "weight-decay": seq2seq(train={"weight_decay": 0.3, "learning_rate": 1e-2}),
    "generated": generating(),
    "generated-by-beams": generating(generation_num_beams=3),
    "generated-without-repeats": generating(generation_config={"no_repeat_ngram_size": 2}),
    "generated-with-penalties": generating(
        generation_num_beams=2, generation_config={"length_penalty": 2.0, "repetition_penalty": 1.5}
    ),
    "generated-of-a-length": generating(
        generation_num_beams=2, generation_config={"min_length": 6, "early_stopping": True}
    ),
    "generated-bart": generating("bart", generation_num_beams=2),
    "best-by-length": seq2seq(
        evaluated=EVALUATED,
        train={**GENERATED, "save_strategy": "steps", "save_steps": 2, "max_steps": 6, "load_best_model_at_end": True},
    ),
}
