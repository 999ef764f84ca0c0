"""Loads the output folder of a job with transformers, predicts its validation data, compares with what traind reported.

The accuracy must be the same but for rows whose two best logits are closer than the tolerance; the logits,
where the folder holds them (eval_logits.safetensors, rows in file order), the same to LOGITS_LIMIT.

usage: reload_output.py JOB.yaml
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TQDM_DISABLE="1")

import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
import datafiles

LOGITS_LIMIT = 1e-4
BATCH = 64


def main():
    path = Path(sys.argv[1])
    job = yaml.safe_load(path.read_text())
    output = path.parent / job["output_dir"]
    model, report = AutoModelForSequenceClassification.from_pretrained(output, output_loading_info=True)
    texts, labels = validation(job, path.parent, model.config.label2id)
    logits = predict(model.eval(), AutoTokenizer.from_pretrained(output), texts, job["data"].get("max_length", 512))

    complaints = [f"transformers reports {key}: {sorted(report[key])}" for key in report if report[key]]
    complaints += accuracy_complaints(output, logits, torch.tensor(labels))
    complaints += logits_complaints(output, logits)
    print("\n".join(complaints) or "the output folder holds the model that traind evaluated")
    sys.exit(1 if complaints else 0)


def validation(job, base, label2id):
    """Texts and class indices of the job's validation file; names come from label_map or are the values themselves."""
    data = job["data"]
    texts, values = datafiles.texts_and_labels(base / data["validation"], data["text"], data["label"])
    names = {str(value): name for value, name in data.get("label_map", {}).items()}
    return texts, [class_index(names.get(str(value), value), label2id) for value in values]


def class_index(value, label2id):
    return label2id[value] if value in label2id else int(value)


@torch.no_grad()
def predict(model, tokenizer, texts, max_length):
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    encode = lambda batch: tokenizer(batch, truncation=True, max_length=max_length, padding=True, return_tensors="pt")
    return torch.cat([model(**encode(batch)).logits for batch in batches])


def accuracy_complaints(output, logits, labels):
    history = json.loads((output / "trainer_state.json").read_text())["log_history"]
    reported = [entry["eval_accuracy"] for entry in history if "eval_accuracy" in entry]
    if not reported:
        return ["trainer_state.json holds no eval_accuracy"]
    accuracy = (logits.argmax(-1) == labels).double().mean().item()
    best = logits.topk(2).values
    undecided = (best[:, 0] - best[:, 1] < LOGITS_LIMIT).double().mean().item()
    print(f"accuracy: {accuracy:.6f} in transformers, {reported[-1]:.6f} reported, {len(labels)} rows")
    same = abs(accuracy - reported[-1]) <= undecided + 1e-6
    return [] if same else ["the accuracies differ"]


def logits_complaints(output, logits):
    path = output / "eval_logits.safetensors"
    if not path.exists():
        print("logits: the folder holds none to compare with")
        return []
    reported = load_file(path)["logits"]
    if reported.shape != logits.shape:
        return [f"logits have shape {tuple(reported.shape)}, not {tuple(logits.shape)}"]
    distance = (reported - logits).abs().max().item()
    print(f"logits: largest difference {distance:.2e}")
    return [] if distance <= LOGITS_LIMIT else [f"the logits differ by more than {LOGITS_LIMIT}"]


if __name__ == "__main__":
    main()
