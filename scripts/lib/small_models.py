"""Folders of small models without weights: a config, and a tokenizer that is trained on the texts of an example."""

import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

PAD, END = "<pad>", "</s>"
PAD_ID, END_ID = 0, 1


def write(folder, config, texts, vocabulary, ends_texts=True, **settings):
    """Writes config and tokenizer. With `ends_texts` the tokenizer ends each text by its token for that, as T5's does.

    `settings` are further keys of `tokenizer_config.json`.
    """
    folder.mkdir(parents=True)
    tokenizer = train_tokenizer(texts, vocabulary, ends_texts)
    tokenizer.save(str(folder / "tokenizer.json"))
    keys = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": PAD, "eos_token": END} | settings
    (folder / "tokenizer_config.json").write_text(json.dumps(keys))
    tokens = {"vocab_size": tokenizer.get_vocab_size(), "pad_token_id": PAD_ID, "eos_token_id": END_ID}
    (folder / "config.json").write_text(json.dumps(config | tokens))
    return tokenizer


def train_tokenizer(texts, vocabulary, ends_texts):
    """Byte pairs, as GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if ends_texts:
        tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, END_ID)])
    return tokenizer
