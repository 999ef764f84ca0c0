"""Trains a small ViT to tell the categories of icons, and compares it with the commonest category.

Every fifth icon of a category is evaluated and not trained on. An icon under several names is taken once.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import service

SIZE = 32
# A category with fewer icons is left out.
ICONS_MIN = 30
EVALUATED = 5
MODEL = {
    "architectures": ["ViTForImageClassification"],
    "model_type": "vit",
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "image_size": SIZE,
    "patch_size": 4,
    "hidden_dropout_prob": 0.1,
}
PROCESSOR = {"image_processor_type": "ViTImageProcessor", "size": {"height": SIZE, "width": SIZE}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument(
        "--icons", required=True, type=Path, help="a folder with a folder of PNG files for each category"
    )
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icons.") as scratch:
        scratch = Path(scratch)
        evaluated = copy_icons(options.icons, scratch)
        write_model(scratch / "model")
        with service.Daemon(options.traind) as daemon:
            run = daemon.run(job(options, scratch), show)
    baseline = max(evaluated.values()) / sum(evaluated.values())
    accuracy = [evaluation.metrics["eval_accuracy"] for _, evaluation in run.of_kind("evaluated")][-1]
    print(f"accuracy {accuracy:.3f}; {max(evaluated, key=evaluated.get)} alone, the commonest category: {baseline:.3f}")
    sys.exit(0 if accuracy > baseline else "not better than the commonest category")


def copy_icons(icons, scratch):
    """Writes the folders `train` and `validation`; returns how many icons of each category are evaluated."""
    evaluated = {}
    for category in sorted(icons.iterdir()):
        files = [file for file in sorted(category.glob("*.png")) if not file.is_symlink()]
        if len(files) < ICONS_MIN:
            continue
        for index, file in enumerate(files):
            split = "validation" if index % EVALUATED == 0 else "train"
            (scratch / split / category.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, scratch / split / category.name)
        evaluated[category.name] = len(files[::EVALUATED])
    return evaluated


def write_model(folder):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MODEL))
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))


def job(options, scratch):
    return {
        "name": "icons",
        "model": {"name_or_path": str(scratch / "model"), "task": "image-classification", "from_config": True},
        "data": {"train": str(scratch / "train"), "validation": str(scratch / "validation")},
        "train": {
            "num_train_epochs": options.epochs,
            "per_device_train_batch_size": 32 // options.cores,
            "per_device_eval_batch_size": 64,
            "learning_rate": 1e-3,
            "warmup_ratio": 0.1,
            "lr_scheduler_type": "cosine",
            "weight_decay": 0.05,
            "eval_strategy": "epoch",
            "save_strategy": "no",
        },
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(scratch / "output"),
    }


def show(event):
    if event.WhichOneof("kind") == "evaluated":
        metrics = event.evaluated.metrics
        print(f"epoch {event.evaluated.epoch:.0f}: accuracy {metrics['eval_accuracy']:.3f}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    main()
