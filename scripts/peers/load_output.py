"""Loads an output folder with the task's Auto class; fails if transformers finds a missing or an unexpected weight.

usage: load_output.py TASK OUTPUT_DIR
"""

import sys

from random_model import AUTO

if __name__ == "__main__":
    task, output = sys.argv[1:]
    model, report = AUTO[task].from_pretrained(output, output_loading_info=True)
    complaints = [f"transformers reports {key}: {sorted(report[key])}" for key in report if report[key]]
    if model.config.architectures != [type(model).__name__]:
        complaints.append(f"config.json says {model.config.architectures}, not {type(model).__name__}")
    sys.exit("\n".join(complaints) or 0)
