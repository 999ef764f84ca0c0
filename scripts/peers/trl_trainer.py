"""Fine-tunes a model with TRL's SFTTrainer (`sft`) or DPOTrainer (`dpo`) on the CPU, rows in file order. Each case is a
JSON object with arguments of its config, as `peft` of LoraConfig, and as `reference_seed` the seed of the weights of
another reference, if it has one. Writes a list of the log histories, the adapters that case N began with into
ADAPTERS_DIR/N, and its reference into ADAPTERS_DIR/reference-N.

usage: trl_trainer.py sft|dpo MODEL_DIR ROWS.jsonl OUT.json ADAPTERS_DIR STEPS BATCH LEARNING_RATE CASES...
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import datasets
import peft
import transformers
import trl

import task_trainer

datasets.disable_progress_bars()


class SftTrainer(trl.SFTTrainer):
    _clip_grad_norm = task_trainer.Trainer._clip_grad_norm


class DpoTrainer(trl.DPOTrainer):
    _clip_grad_norm = task_trainer.Trainer._clip_grad_norm


KINDS = {"sft": (trl.SFTConfig, SftTrainer), "dpo": (trl.DPOConfig, DpoTrainer)}


def main():
    kind, model_dir, rows, out, adapters, steps, batch, learning_rate, *cases = sys.argv[1:]
    config, trainer_of = KINDS[kind]
    rows = [json.loads(line) for line in Path(rows).read_text().splitlines()]
    histories = []
    for number, case in enumerate(map(json.loads, cases)):
        models = reference(model_dir, case.pop("reference_seed", None), Path(adapters) / f"reference-{number}")
        transformers.set_seed(number)
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model_dir)
        model = transformers.AutoModelForCausalLM.from_pretrained(model_dir)
        lora = case.pop("peft", None)
        if lora is not None:
            model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **lora))
            model.save_pretrained(Path(adapters) / str(number))
        arguments = config(
            tempfile.mkdtemp(prefix="trainer."),
            max_steps=int(steps),
            per_device_train_batch_size=int(batch),
            learning_rate=float(learning_rate),
            train_sampling_strategy="sequential",
            gradient_checkpointing=False,
            bf16=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            **case,
        )
        train_dataset = datasets.Dataset.from_list(rows)
        trainer = trainer_of(model, args=arguments, train_dataset=train_dataset, processing_class=tokenizer, **models)
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        histories.append(trainer.state.log_history)
    Path(out).write_text(json.dumps(histories))


def reference(model_dir, seed, folder):
    """A trainer's argument of a reference like `model_dir` with other weights, saved in `folder`; none without a seed."""
    if seed is None:
        return {}
    transformers.set_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(model_dir))
    model.save_pretrained(folder)
    return {"ref_model": model}


if __name__ == "__main__":
    main()
