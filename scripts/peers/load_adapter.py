"""Loads adapters that traind saved with PEFT, which must find every tensor, and none that it does not know.

usage: load_adapter.py TASK MODEL_DIR ADAPTER_DIR
"""

import os
import sys

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import peft
import torch
from safetensors.torch import load_file

from random_model import AUTO


def main():
    task, model_dir, adapter = sys.argv[1:]
    model = peft.PeftModel.from_pretrained(AUTO[task].from_pretrained(model_dir), adapter)
    saved = load_file(f"{adapter}/adapter_model.safetensors")
    loaded = peft.get_peft_model_state_dict(model)
    replaced = {name for name in loaded if ".original_module." in name or ".modules_to_save." in name}
    if missing := loaded.keys() - replaced - saved.keys():
        sys.exit(f"{adapter} lacks {sorted(missing)}")
    if unknown := [name for name in saved if name not in loaded or not torch.equal(saved[name], loaded[name])]:
        sys.exit(f"PEFT did not load {unknown} of {adapter}")


if __name__ == "__main__":
    main()
