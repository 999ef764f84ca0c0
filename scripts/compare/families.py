"""Every task of every family, for the comparisons that go through all of them."""

import sys

import both

ENCODER_TASKS = ["sequence-classification", "token-classification", "question-answering", "masked-lm"]
DECODER_TASKS = ["sequence-classification", "causal-lm"]
SEQ2SEQ_TASKS = ["seq2seq-lm"]
IMAGE_TASKS = ["image-classification"]
FAMILIES = {
    "bert": ENCODER_TASKS,
    "distilbert": ENCODER_TASKS,
    "roberta": ENCODER_TASKS,
    "xlm-roberta": ENCODER_TASKS,
    "xlm-roberta-xl": ENCODER_TASKS,
    "modernbert": ENCODER_TASKS,
    "eurobert": ["sequence-classification", "token-classification", "masked-lm"],
    "electra": ENCODER_TASKS,
    "mpnet": ENCODER_TASKS,
    # Transformers has no classes of these that answer questions.
    "nomic_bert": ["sequence-classification", "token-classification", "masked-lm"],
    "gte": ["sequence-classification", "token-classification", "masked-lm"],
    "jina_embeddings_v3": ENCODER_TASKS,
    "albert": ENCODER_TASKS,
    "deberta-v2": ENCODER_TASKS,
    "gpt2": DECODER_TASKS,
    "llama": DECODER_TASKS,
    "mistral": DECODER_TASKS,
    "qwen2": DECODER_TASKS,
    "qwen3": DECODER_TASKS,
    "gemma": DECODER_TASKS,
    "phi3": DECODER_TASKS,
    "gemma2": DECODER_TASKS,
    "gemma3_text": DECODER_TASKS,
    "smollm3": DECODER_TASKS,
    "granite": ["causal-lm"],
    "olmo2": DECODER_TASKS,
    "olmo3": DECODER_TASKS,
    "t5": SEQ2SEQ_TASKS,
    "mt5": SEQ2SEQ_TASKS,
    "bart": SEQ2SEQ_TASKS,
    "mbart": SEQ2SEQ_TASKS,
    "vit": IMAGE_TASKS,
    "deit": IMAGE_TASKS,
}
# Tasks that train models of causal-lm as TRL's trainers do, and the families that stand for all in comparisons of
# meshes.
CHAT_TASKS = {"sft": ["gpt2", "llama"], "dpo": ["gpt2", "llama"]}
# As peers/features.py prepares the rows for transformers.
DATA = {
    "sequence-classification": {"max_length": 64},
    "token-classification": {"max_length": 64},
    "question-answering": {"max_length": 64, "doc_stride": 16, "id": "id", "pad_to_max_length": True},
    "masked-lm": {"max_length": 64, "line_by_line": True, "mlm_probability": 1.0, "whole_word_mask": True},
    "causal-lm": {"block_size": 64},
    "seq2seq-lm": {"source_prefix": "backwards: ", "max_source_length": 64, "max_target_length": 16},
    "image-classification": {"augmentation": False},
}


def parser(doc, more_tasks=()):
    """The options of a comparison that goes through families and tasks, with `more_tasks` besides those of DATA."""
    parser = both.parser(doc, batch=16)
    parser.add_argument("--family", required=True, choices=["all", *FAMILIES])
    parser.add_argument("--task", choices=sorted([*DATA, *more_tasks]))
    return parser


def pairs(options, more_tasks=None):
    """The families and tasks that were asked for; `more_tasks` have lists of families."""
    more = lambda family: [task for task, families in (more_tasks or {}).items() if family in families]
    tasks = {family: [*own, *more(family)] for family, own in FAMILIES.items()}
    families = FAMILIES if options.family == "all" else [options.family]
    found = [(family, task) for family in families for task in tasks[family] if options.task in (None, task)]
    if not found:
        sys.exit(f"{options.family} has no {options.task}; it has {', '.join(tasks[options.family])}")
    return found


def model_section(task, folder):
    labels = {"num_labels": 3} if task in ("sequence-classification", "image-classification") else {}
    return {"name_or_path": str(folder), "task": task, **labels}
