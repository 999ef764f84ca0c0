"""Language models, masked and causal."""

import transformers

from case import case
from cases.bases import BLOCKS, CAUSAL, NO_SEGMENTS, TEXTS
from features import of_blocks
from rows import lines


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
