"""Saves a pretrained model with a freshly drawn classification head, so that two programs start from the same weights.

usage: save_with_head.py MODEL_DIR OUT_DIR LABELS
"""

import os
import sys

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")

import transformers

if __name__ == "__main__":
    model, out, labels = sys.argv[1:]
    transformers.set_seed(42)
    classifier = transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=int(labels))
    classifier.save_pretrained(out)
    transformers.AutoTokenizer.from_pretrained(model).save_pretrained(out)
