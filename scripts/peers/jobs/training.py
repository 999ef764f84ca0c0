"""Runs a job with the tools that it is compared with: the Trainer, Seq2SeqTrainer, TRL's trainers, and PEFT."""

import json
import shutil

import datasets
import inputs
import models
import numpy as np
import peft
import sentence_training
import torch
import transformers
import trl
from safetensors.torch import load_file
from torch.nn import functional
from trl.experimental import cpo, orpo

from random_model import AUTO

TASK_TYPES = {
    "sequence-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
    "causal-lm": "CAUSAL_LM",
    "sft": "CAUSAL_LM",
    "dpo": "CAUSAL_LM",
    "orpo": "CAUSAL_LM",
    "cpo": "CAUSAL_LM",
    "kto": "CAUSAL_LM",
    "reward": "SEQ_CLS",
    "seq2seq-lm": "SEQ_2_SEQ_LM",
}
SFT_KEYS = [
    *["max_length", "packing", "packing_strategy", "eval_packing", "assistant_only_loss", "completion_only_loss"],
    *["eos_token", "pad_to_multiple_of"],
]
# Keys of the section `train` that no arguments of trainers have.
OWN_KEYS = [
    "freeze",
    "generation_config",
    "early_stopping_patience",
    "early_stopping_threshold",
    "overwrite_output_dir",
]
# PEFT saves the base's weights, too, where adapters concern embeddings or the head, or embeddings were resized.
OF_THE_BASE = (".base_layer.", ".original_module.", ".modules_to_save.")


def run(case, folder):
    """Trains; returns the state, and what was generated for the rows of `validation` if the job asks for it."""
    job = case.sections()
    job["data"] |= case.peer
    rows = case.rows(folder)
    scratch = folder / "theirs"
    shutil.rmtree(scratch, ignore_errors=True)
    trainer = made(case, job, folder, rows, scratch)
    train = job["train"]
    if train.get("early_stopping_patience"):
        patience = [train["early_stopping_patience"], train.get("early_stopping_threshold", 0.0)]
        trainer.add_callback(transformers.EarlyStoppingCallback(*patience))
    trainer.train()
    if case.resume:
        trainer = made(case, job, folder, rows, scratch)
        trainer.train(resume_from_checkpoint=str(scratch / f"checkpoint-{case.resume}"))
    if "validation" in rows and train.get("eval_strategy", "no") == "no":
        trainer.evaluate()
    trainer.save_model(scratch)
    trainer.save_state()
    return json.loads((scratch / "trainer_state.json").read_text())


def made(case, job, folder, rows, scratch):
    """The trainer of the job's task, which prints nothing."""
    trainer = trainer_of(case, job, folder, rows, scratch)
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def trainer_of(case, job, folder, rows, scratch):
    task = case.task
    if task in sentence_training.TASKS:
        tables = {split: table(part) for split, part in rows.items()}
        arguments = {"output_dir": scratch, **given(case, job)}
        return sentence_training.TASKS[task](case, job, folder, tables, arguments, counting)
    tokenizer = None if task == "image-classification" else transformers.AutoTokenizer.from_pretrained(folder / "model")
    if tokenizer:
        add_tokens(tokenizer, job["model"])
    model = loaded(case, job, folder, tokenizer)
    if task == "sft":
        return sft(case, job, model, tokenizer, rows, scratch)
    if task in PREFERENCES:
        return preferences(case, job, folder, model, tokenizer, rows, scratch)
    kinds = (transformers.Seq2SeqTrainer, transformers.Seq2SeqTrainingArguments)
    trainer, config = kinds if task == "seq2seq-lm" else (Counting, transformers.TrainingArguments)
    arguments = config(scratch, **given(case, job))
    if task == "seq2seq-lm":
        beams = job["train"].get("generation_num_beams", model.generation_config.num_beams)
        for key, value in {"num_beams": beams, **job["train"].get("generation_config", {})}.items():
            setattr(model.generation_config, key, value)
    of = inputs.TASKS[task]
    made = {split: of(part, tokenizer, job["data"], folder, job) for split, part in rows.items()}
    return trainer(
        model, arguments, inputs.collator(task, tokenizer, model, job["data"]), made["train"], made.get("validation"),
        processing_class=tokenizer, compute_loss_func=loss_of(job), compute_metrics=metrics_of(task, job, tokenizer),
    )  # fmt: skip


class Counting(transformers.Trainer):
    """The norm of the gradients is summed in float64, as a step's clipping is to be the same for all sizes."""

    def _clip_grad_norm(self, model):
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        norm = torch.stack([gradient.double().square().sum() for gradient in gradients]).sum().sqrt()
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), self.args.max_grad_norm, norm.float())
        return norm


def counting(trainer):
    """The class with this norm."""
    return type(trainer.__name__, (trainer,), {"_clip_grad_norm": Counting._clip_grad_norm})


def given(case, job):
    """The arguments of the peer's trainer."""
    known = {key: value for key, value in job["train"].items() if key not in OWN_KEYS}
    usual = {"use_cpu": True, "disable_tqdm": True, "bf16": False, "gradient_checkpointing": False}
    cores = job["resources"].get("cores", 1)
    for key in ["per_device_train_batch_size", "per_device_eval_batch_size"]:
        known[key] *= cores
    return {key: value for key, value in {**usual, **known, **case.arguments}.items() if value is not None}


def add_tokens(tokenizer, section):
    if "add_tokens" in section:
        tokenizer.add_tokens(section["add_tokens"])
    if "add_special_tokens" in section:
        special = dict(section["add_special_tokens"])
        tokenizer.add_special_tokens(special)


def loaded(case, job, folder, tokenizer):
    """The model that the job trains: new weights are those that traind drew."""
    section, task = job["model"], case.task
    auto = AUTO[models.KINDS.get(task, task)]
    options = {key: section[key] for key in ["num_labels", "problem_type", "ignore_mismatched_sizes"] if key in section}
    if "label_map" in job["data"]:
        options["num_labels"] = len(set(job["data"]["label_map"].values()))
    model = auto.from_pretrained(
        folder / "model", dtype=torch.float32, **options, **section.get("config_overrides", {})
    )
    if any(key in section for key in ["add_tokens", "add_special_tokens", "pad_vocab_to_multiple_of"]):
        model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=section.get("pad_vocab_to_multiple_of"))
    for name, parameter in model.named_parameters():
        if any(f".{entry}." in f".{name}." for entry in job["train"].get("freeze", [])):
            parameter.requires_grad_(False)
    if "adapter_name_or_path" in (job.get("peft") or {}):
        return peft.PeftModel.from_pretrained(model, folder / job["peft"]["adapter_name_or_path"], is_trainable=True)
    if job.get("peft"):
        return adapted(model, task, job["peft"], load_file(folder / "drawn" / "adapter_model.safetensors"))
    if case.is_drawn:
        drawn = load_file(folder / "drawn" / "model.safetensors")
        missing = model.load_state_dict(drawn, strict=False)
        tied = set(model.all_tied_weights_keys)
        assert not missing.unexpected_keys and set(missing.missing_keys) <= tied, missing
    return model


def adapted(model, task, section, drawn):
    section = {key: value for key, value in section.items() if key not in ("method", "merge")}
    model = peft.get_peft_model(model, peft.LoraConfig(task_type=TASK_TYPES.get(task), **section))
    own = peft.get_peft_model_state_dict(model)
    different = {name for name in own.keys() ^ drawn.keys() if not any(part in name for part in OF_THE_BASE)}
    if different or any(own[name].shape != drawn[name].shape for name in own.keys() & drawn.keys()):
        raise ValueError(f"traind's adapters are others than PEFT's: {sorted(different)[:6]}")
    peft.set_peft_model_state_dict(model, drawn)
    return model


def loss_of(job):
    """The Trainer counts the labels of all batches of a step; encoder-decoders, models for classification and most masked
    language models take no notice of that."""
    train, section = job["train"], job["model"]
    plain = train.get("gradient_accumulation_steps", 1) == 1 or train.get("label_smoothing_factor")
    if plain or not section["task"].endswith(("-classification", "seq2seq-lm", "masked-lm")):
        return None

    def mean_over_labels(outputs, labels, num_items_in_batch):
        logits = outputs.logits
        if section.get("problem_type") == "multi_label_classification":
            total = functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
        elif labels.is_floating_point():
            total = functional.mse_loss(logits.view(-1), labels.view(-1), reduction="sum")
        else:
            total = functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), reduction="sum")
        return total / num_items_in_batch

    return mean_over_labels


def metrics_of(task, job, tokenizer):
    """The metrics that example scripts compute."""
    if job["train"].get("predict_with_generate"):
        return lambda found: generated_metrics(found, tokenizer)
    if task not in ("sequence-classification", "image-classification") or job["train"].get("prediction_loss_only"):
        return None

    def compute(found):
        predictions = found.predictions[0] if isinstance(found.predictions, tuple) else found.predictions
        if job["model"].get("problem_type") == "multi_label_classification":
            return {}
        if predictions.shape[-1] == 1 or job["model"].get("problem_type") == "regression":
            return {"mse": float(np.mean((np.squeeze(predictions) - np.squeeze(found.label_ids)) ** 2))}
        return {"accuracy": float((predictions.argmax(-1) == found.label_ids).mean())}

    return compute


def generated_metrics(found, tokenizer):
    predictions = np.where(found.predictions >= 0, found.predictions, tokenizer.pad_token_id)
    return {"gen_len": float(np.mean([np.count_nonzero(row != tokenizer.pad_token_id) for row in predictions]))}


def sft(case, job, model, tokenizer, rows, scratch):
    data = job["data"]
    keys = {key: data[key] for key in SFT_KEYS if key in data}
    if "text" in data:
        keys["dataset_text_field"] = data["text"]
    arguments = trl.SFTConfig(scratch, **given(case, job), **keys)
    return SftTrainer(
        model, arguments, train_dataset=table(rows["train"]), eval_dataset=table(rows.get("validation")),
        processing_class=tokenizer,
    )  # fmt: skip


class SftTrainer(trl.SFTTrainer):
    _clip_grad_norm = Counting._clip_grad_norm


# The trainers of preferences with their configs.
PREFERENCES = {
    "dpo": (trl.DPOTrainer, trl.DPOConfig),
    "reward": (trl.RewardTrainer, trl.RewardConfig),
    "kto": (trl.KTOTrainer, trl.KTOConfig),
    "orpo": (orpo.ORPOTrainer, orpo.ORPOConfig),
    "cpo": (cpo.CPOTrainer, cpo.CPOConfig),
}


def preferences(case, job, folder, model, tokenizer, rows, scratch):
    trainer, config = PREFERENCES[case.task]
    section = dict(job.get(case.task, {}))
    path = section.pop("ref_model_name_or_path", None)
    keys = {key: job["data"][key] for key in ["max_length", "pad_to_multiple_of"] if key in job["data"]}
    arguments = config(scratch, **given(case, job), **section, **keys)
    reference = {"ref_model": transformers.AutoModelForCausalLM.from_pretrained(folder / path)} if path else {}
    return counting(trainer)(
        model, args=arguments, train_dataset=table(rows["train"]), eval_dataset=table(rows.get("validation")),
        processing_class=tokenizer, **reference,
    )  # fmt: skip


def table(rows):
    return datasets.Dataset.from_list(rows) if isinstance(rows, list) else rows
