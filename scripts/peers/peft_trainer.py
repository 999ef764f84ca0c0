"""Trains parts of a model with PEFT and Hugging Face's Trainer on the CPU, rows in file order. Each case is a JSON object:
LoraConfig's arguments, or `{"freeze": [...]}` with the names of what is not trained. Writes a list of the log histories,
and the adapters that case N began with into ADAPTERS_DIR/N.

usage: peft_trainer.py TASK MODEL_DIR ROWS.jsonl OUT.json ADAPTERS_DIR STEPS BATCH LEARNING_RATE CASES...
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import peft
import transformers

import features
import task_trainer
from random_model import AUTO

TASK_TYPES = {
    "sequence-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
    "causal-lm": "CAUSAL_LM",
    "masked-lm": None,
    "seq2seq-lm": "SEQ_2_SEQ_LM",
    "image-classification": None,
}


def main():
    task, model_dir, rows, out, adapters, steps, batch, learning_rate, *cases = sys.argv[1:]
    tokenizer = task_trainer.tokenizer_of(task, model_dir)
    dataset = features.TASKS[task](features.read(Path(rows)), tokenizer)
    arguments = {
        "max_steps": int(steps),
        "per_device_train_batch_size": int(batch),
        "learning_rate": float(learning_rate),
    }
    histories = []
    for number, case in enumerate(map(json.loads, cases)):
        transformers.set_seed(number)
        model = AUTO[task].from_pretrained(model_dir)
        if "freeze" in case:
            freeze(model, case["freeze"])
        else:
            model = peft.get_peft_model(model, peft.LoraConfig(task_type=TASK_TYPES[task], **case))
            model.save_pretrained(Path(adapters) / str(number))
        collator = features.collator(task, tokenizer, model)
        histories.append(task_trainer.train(model, arguments, dataset, collator, None))
    Path(out).write_text(json.dumps(histories))


def freeze(model, entries):
    for name, parameter in model.named_parameters():
        if any(f".{entry}." in f".{name}." for entry in entries):
            parameter.requires_grad_(False)


if __name__ == "__main__":
    main()
