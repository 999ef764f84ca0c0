"""Saves a small model of a family for a task with random weights, and a tokenizer with it.

Dropout is off. All families get the same tokenizer: a comparison of arithmetic does not mind which.

usage: random_model.py FAMILY TASK TOKENIZER_DIR OUT_DIR
"""

import os
import sys

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import transformers

AUTO = {
    "sequence-classification": transformers.AutoModelForSequenceClassification,
    "token-classification": transformers.AutoModelForTokenClassification,
    "question-answering": transformers.AutoModelForQuestionAnswering,
    "masked-lm": transformers.AutoModelForMaskedLM,
    "causal-lm": transformers.AutoModelForCausalLM,
}
POSITIONS = 128


def config(family, task, tokenizer):
    labels = 2 if task == "question-answering" else 3
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "num_labels": labels}
    encoder = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    if family == "bert":
        return transformers.BertConfig(max_position_embeddings=POSITIONS, **encoder, **sizes)
    if family == "distilbert":
        return transformers.DistilBertConfig(
            dim=64, n_layers=2, n_heads=4, hidden_dim=128, dropout=0.0, attention_dropout=0.0,
            seq_classif_dropout=0.0, qa_dropout=0.0, max_position_embeddings=POSITIONS, **sizes,
        )  # fmt: skip
    if family in ("roberta", "xlm-roberta"):
        positions = POSITIONS + tokenizer.pad_token_id + 1
        kind = transformers.RobertaConfig if family == "roberta" else transformers.XLMRobertaConfig
        return kind(max_position_embeddings=positions, type_vocab_size=1, **encoder, **sizes)
    if family == "gpt2":
        return transformers.GPT2Config(
            n_embd=64, n_layer=2, n_head=4, n_positions=POSITIONS, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id, **sizes,
        )  # fmt: skip
    sys.exit(f"no such family: {family}")


if __name__ == "__main__":
    family, task, source, out = sys.argv[1:]
    # RoBERTa has one segment.
    inputs = ["input_ids", "attention_mask"] + ([] if "roberta" in family else ["token_type_ids"])
    names = {"model_input_names": inputs, "model_max_length": POSITIONS}
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, **names)
    transformers.set_seed(42)
    AUTO[task].from_config(config(family, task, tokenizer)).save_pretrained(out)
    tokenizer.save_pretrained(out)
