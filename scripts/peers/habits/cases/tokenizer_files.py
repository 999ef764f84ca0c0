"""Settings of tokenizers."""

import json

from case import case
from cases.bases import GPT2, LEFT, NO_SEGMENTS, PAIRS, TAGS, TEXTS
from features import of_texts
from folder import word_pieces, write_json
from rows import classified


@case
def tokenizers_that_give_less():
    names = ["input_ids", "attention_mask"]
    return {
        "no-segments": {**PAIRS, "tokenizer": {"model_input_names": names}},
        "class-without-segments": {**PAIRS, "tokenizer": {"tokenizer_class": "PreTrainedTokenizerFast"}},
        "no-attention-mask": {**PAIRS, "tokenizer": {"model_input_names": ["input_ids", "token_type_ids"]}},
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
def lengths_beyond_the_positions():
    long = [{**row, "text": " ".join([row["text"]] * 8)} for row in classified(20)]
    cut = {**TEXTS, "rows": long, "evaluated": long[:9], "data": {}}
    return {"tokenizer": {**cut, "tokenizer": {"model_max_length": 512}}}


def changed(**sections):
    """A tokenizer.json with other sections."""

    def finish(folder):
        path = folder / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        for name, section in sections.items():
            tokenizer[name] = section
        path.write_text(json.dumps(tokenizer))

    return finish


def with_more_tokens():
    tokenizer = word_pieces()
    tokenizer.add_tokens(["newword", *(f"extra{index}" for index in range(20))])
    return tokenizer


@case
def settings_of_tokenizers():
    def without_settings(folder):
        (folder / "tokenizer_config.json").unlink()

    def vocabulary_alone(folder):
        vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary))
        (folder / "tokenizer.json").unlink()

    def with_special_tokens_map(folder):
        write_json(folder / "special_tokens_map.json", {"pad_token": "[MASK]", "unk_token": "[UNK]"})

    cut = {"direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0}
    padded = {
        "strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]",
    }  # fmt: skip
    long = [{**row, "text": " ".join([row["text"]] * 8)} for row in classified(20)]
    accents = ["The Caf\u00e9 was BIG", "cat \u00e0 Dog", "CATS Saw the caf\u00e9"]
    cased = [{**row, "text": f"{row['text']} {accents[index % 3]}"} for index, row in enumerate(classified(30))]
    special = [{**row, "text": f"[CLS] {row['text']} [SEP] cat[MASK]dog [PAD]"} for row in classified(30)]
    unseen = [
        {**row, "text": row["text"] + " \u200b\U0001f600 \u4e2d\u6587 x" * (index % 3)}
        for index, row in enumerate(classified(30))
    ]
    return {
        "no-limit": {**TEXTS, "tokenizer": {"model_max_length": 1e30}, "data": {}, "rows": long},
        "limit-null": {**TEXTS, "tokenizer": {"model_max_length": None}, "data": {}, "rows": long},
        "cut-on-the-left": {**TEXTS, "tokenizer": {"truncation_side": "left"}, "rows": long},
        "cut-on-the-left-pairs": {
            **PAIRS,
            "tokenizer": {"truncation_side": "left"},
            "features": of_texts("pair", 9),
            "data": {**PAIRS["data"], "max_length": 9},
        },
        "pairs-cut": {**PAIRS, "features": of_texts("pair", 9), "data": {**PAIRS["data"], "max_length": 9}},
        "truncation-saved": {**TEXTS, "finish": changed(truncation=cut)},
        "padding-saved": {**TEXTS, "finish": changed(padding=padded)},
        "cased-by-settings": {**TEXTS, "tokenizer": {"do_lower_case": False}, "rows": cased},
        "accents-by-settings": {**TEXTS, "tokenizer": {"strip_accents": False}, "rows": cased},
        "special-tokens-in-texts": {**TEXTS, "rows": special},
        "characters-unknown": {**TEXTS, "rows": unseen},
        "without-settings": {**TEXTS, "finish": without_settings, "rows": cased},
        "vocabulary-alone": {**TEXTS, "finish": vocabulary_alone, "rows": cased},
        "special-tokens-map": {**TEXTS, "tokenizer": {"pad_token": "absent"}, "finish": with_special_tokens_map},
        "more-tokens-than-rows": {
            **TEXTS,
            "tokenizer_file": with_more_tokens,
            "rows": [{**row, "text": row["text"] + " extra7"} for row in classified(30)],
            "trained": False,
            "refusal": "the embedding",
        },
    }
