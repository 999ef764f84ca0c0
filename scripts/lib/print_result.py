"""Prints the last evaluation in the trainer_state.json of an output folder.

usage: print_result.py OUTPUT_DIR
"""

import json
import sys
from pathlib import Path


def main():
    output = Path(sys.argv[1])
    history = json.loads((output / "trainer_state.json").read_text())["log_history"]
    evaluations = [entry for entry in history if "eval_accuracy" in entry]
    if not evaluations:
        sys.exit(f"{output}/trainer_state.json holds no evaluation")
    last = evaluations[-1]
    print(f"accuracy  {last['eval_accuracy']:.4f} after {last['epoch']:g} epochs, {last['step']} steps")
    print(f"output    {output}")


if __name__ == "__main__":
    main()
