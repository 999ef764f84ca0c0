"""Trains a model for any task with Hugging Face's Trainer, rows in file order, and writes a list of its log histories:
one for each of the JSON objects with more of its arguments, or one without. On the CPU, unless `use_cpu` is false there.

The norm of the gradients is summed in float64: PyTorch's sum in float32 is 2e-4 short of that of the gradients of
30,000 word embeddings of 64, and so would be the step that is clipped by it.

usage: task_trainer.py TASK MODEL_DIR ROWS.jsonl OUT.json STEPS BATCH LEARNING_RATE [ARGUMENTS...]
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import torch
import transformers

import features
from random_model import AUTO


class Trainer(transformers.Trainer):
    def _clip_grad_norm(self, model):
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        norm = torch.stack([gradient.double().square().sum() for gradient in gradients]).sum().sqrt()
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), self.args.max_grad_norm, norm.float())
        return norm


def mean_over_labels(outputs, labels, num_items_in_batch):
    """The Trainer counts the labels of all batches of a step; the models of these tasks take no notice of that."""
    logits = outputs.logits
    total = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), reduction="sum")
    return total / num_items_in_batch


COUNTED = {"sequence-classification", "token-classification", "masked-lm"}


def main():
    task, model_dir, rows, out, steps, batch, learning_rate, *arguments = sys.argv[1:]
    tokenizer = tokenizer_of(task, model_dir)
    dataset = features.TASKS[task](features.read(Path(rows)), tokenizer)
    usual = {
        "max_steps": int(steps),
        "per_device_train_batch_size": int(batch),
        "learning_rate": float(learning_rate),
    }
    histories = []
    for more in map(json.loads, arguments or ["{}"]):
        model = AUTO[task].from_pretrained(model_dir)
        # A smoothed loss is divided by that count.
        counts = task in COUNTED and "gradient_accumulation_steps" in more and "label_smoothing_factor" not in more
        loss = mean_over_labels if counts else None
        histories.append(train(model, usual | more, dataset, features.collator(task, tokenizer, model), loss))
    Path(out).write_text(json.dumps(histories))


def tokenizer_of(task, model_dir):
    """As tokenizer.json has it: AutoTokenizer would put Qwen's own class in place of the folder's. Images have none."""
    if task == "image-classification":
        return None
    return transformers.PreTrainedTokenizerFast.from_pretrained(model_dir)


def train(model, arguments, dataset, collator, loss):
    arguments = transformers.TrainingArguments(
        tempfile.mkdtemp(prefix="trainer."),
        train_sampling_strategy="sequential",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **{"use_cpu": True} | arguments,
    )
    trainer = Trainer(model, arguments, train_dataset=dataset, data_collator=collator, compute_loss_func=loss)
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return trainer.state.log_history


if __name__ == "__main__":
    main()
