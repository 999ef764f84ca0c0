"""Trains a model that does not fit on one core: its job is refused with a mesh that fits, and admitted with that mesh.

The cores are devices of this processor, to which the daemon gives 1 GiB each. transformers must load what was trained.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = Path(__file__).parents[1]
sys.path.insert(0, str(SCRIPTS / "lib"))

import service

GIB_PER_CORE = 1
CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 1024,
    "n_layer": 24,
    "n_head": 16,
}
# The keys that a refusal names: "parallel.pipeline: 2", "parallel.offload: [optimizer]".
CHANGE = re.compile(r"([a-z_]+)\.([a-z_]+): (\[[^]]*\]|[^,\s]+)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--model", required=True, type=Path, help="a folder with a tokenizer")
    # No single change suffices: of the divisors of 10, 2 alone divides the 16 heads.
    parser.add_argument("--cores", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2, help="of each core, before the mesh changes")
    parser.add_argument("--tokens", type=int, default=64, help="of a row")
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="traind-soak-") as folder:
        folder = Path(folder)
        write_inputs(options, folder)
        with service.Daemon(
            options.traind, cores=options.cores, options=["--memory-per-core", str(GIB_PER_CORE)]
        ) as daemon:
            print("one core:", refusal(daemon, job(options, folder, cores=1)))
            wanted = job(options, folder, cores=options.cores)
            message = refusal(daemon, wanted)
            print(f"{options.cores} cores:", message)
            run = daemon.run(changed(wanted, message))
        losses = [entry["loss"] for entry in run.trainer_state()["log_history"] if "loss" in entry]
        print(f"admitted with this mesh; losses {losses}")
        load = [options.peers_python, SCRIPTS / "peers" / "load_output.py", "causal-lm", folder / "out"]
        subprocess.run(load, check=True)
    print("transformers loads the output")


def write_inputs(options, folder):
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(options.model / name, model)
    words = "A model that no core has room for is divided among several cores. ".split()
    lines = [" ".join(words[row % 12 :] + words[: row % 12]) for row in range(40 * options.tokens)]
    (folder / "train.txt").write_text("\n".join(lines))


def job(options, folder, cores):
    return {
        "name": "large",
        "model": {"name_or_path": str(folder / "model"), "task": "causal-lm", "from_config": True},
        "data": {"train": str(folder / "train.txt"), "block_size": options.tokens},
        "train": {
            "per_device_train_batch_size": options.rows,
            "max_steps": options.steps,
            "logging_steps": 1,
            "save_strategy": "no",
        },
        "resources": {"platform": "cpu", "cores": cores},
        "output_dir": str(folder / "out"),
    }


def refusal(daemon, job):
    """The message with which a job is refused."""
    try:
        daemon.submit(job)
    except service.JobFailed as refused:
        return str(refused).splitlines()[0]
    sys.exit(f"{job['resources']['cores']} cores of {GIB_PER_CORE} GiB each were enough; give it more --rows")


def changed(job, message):
    """The job with the changes that its refusal names."""
    _, found, advice = message.partition("it fits with ")
    if not found:
        sys.exit(f"no mesh is named: {message}")
    job = json.loads(json.dumps(job))
    # The first way, without its costs.
    first = advice.split(", or with ")[0].split(" (")[0]
    for section, key, value in CHANGE.findall(first):
        job.setdefault(section, {})[key] = as_value(value)
    return job


def as_value(text):
    if text.startswith("["):
        return [name.strip() for name in text.strip("[]").split(",") if name.strip()]
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
