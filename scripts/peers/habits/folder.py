"""The model folder of a case."""

import json
import shutil
from pathlib import Path

import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rows import SPECIAL, WORDS

FIXTURES = Path(__file__).parents[3] / "xla-backend" / "models" / "fixtures"
TASKS = {
    "sequence-classification": transformers.AutoModelForSequenceClassification,
    "token-classification": transformers.AutoModelForTokenClassification,
    "question-answering": transformers.AutoModelForQuestionAnswering,
    "masked-lm": transformers.AutoModelForMaskedLM,
    "causal-lm": transformers.AutoModelForCausalLM,
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
    if case.finish:
        case.finish(folder)


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


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")
