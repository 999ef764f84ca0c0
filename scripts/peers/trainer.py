"""Fine-tunes a sequence classifier with Hugging Face's Trainer on the CPU and writes what came of it as JSON.

One script for the comparisons, which want every step's measurements, and for the benchmark, which wants the time.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import torch
import transformers

import datafiles


def main():
    options = parse_options()
    torch.set_num_threads(options.threads)
    transformers.set_seed(options.seed)
    begin = time.perf_counter()
    trainer = make_trainer(options)
    prepared = time.perf_counter()
    trainer.train()
    trained = time.perf_counter()
    evaluation = trainer.evaluate() if options.validation else {}
    result = {
        "prepare_seconds": prepared - begin,
        "train_seconds": trained - prepared,
        "samples_per_second": samples(trainer, options) / (trained - prepared),
        "memory_bytes_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "steps": trainer.state.max_steps,
        "accuracy": evaluation.get("eval_accuracy"),
        "log_history": trainer.state.log_history,
    }
    options.out.write_text(json.dumps(result, indent=1))


def samples(trainer, options):
    """The number of rows trained on, with repetitions."""
    if options.max_steps > 0:
        return options.max_steps * options.batch
    return len(trainer.train_dataset) * options.epochs


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", required=True, type=Path)
    parser.add_argument("--validation", type=Path)
    parser.add_argument("--labels", required=True, type=int)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--dropout", type=float, help="of every kind, in place of the config's")
    parser.add_argument("--sampling", default="random", choices=["random", "sequential", "group_by_length"])
    parser.add_argument("--logging-steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    return parser.parse_args()


def make_trainer(options):
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    config = transformers.AutoConfig.from_pretrained(options.model, num_labels=options.labels)
    if options.dropout is not None:
        config.update({"hidden_dropout_prob": options.dropout, "attention_probs_dropout_prob": options.dropout})
    model = transformers.AutoModelForSequenceClassification.from_pretrained(options.model, config=config)
    arguments = transformers.TrainingArguments(
        tempfile.mkdtemp(prefix="trainer."),
        num_train_epochs=options.epochs,
        max_steps=options.max_steps,
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=64,
        learning_rate=options.learning_rate,
        train_sampling_strategy=options.sampling,
        logging_steps=options.logging_steps,
        seed=options.seed,
        bf16=options.bf16,
        torch_compile=options.compile,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model,
        arguments,
        train_dataset=tokenized(options.train, tokenizer),
        eval_dataset=tokenized(options.validation, tokenizer) if options.validation else None,
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        compute_metrics=accuracy,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def tokenized(path, tokenizer):
    texts, labels = datafiles.texts_and_labels(path)
    encoded = tokenizer(texts, truncation=True, max_length=128)
    return [{"label": label, **{key: encoded[key][row] for key in encoded.keys()}} for row, label in enumerate(labels)]


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


if __name__ == "__main__":
    main()
