"""Shared by the comparisons with the Trainer: running the peers' programs, and traind jobs that the Trainer can repeat."""

import argparse
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[1]
sys.path.insert(0, str(SCRIPTS / "lib"))

import service


def parser(doc, batch):
    """Adds the options that all comparisons share."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--model", required=True, type=Path, help="a folder with a model and its tokenizer")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--batch", type=int, default=batch, help="rows per step, over all cores")
    return parser


def peers(options, script, *arguments):
    subprocess.run([options.peers_python, SCRIPTS / "peers" / script, *map(str, arguments)], check=True)


def run_traind(options, name, model, data, learning_rate, steps, output, **train):
    """Trains on the rows in order, with more keys of the section `train`; returns the log entries of the steps."""
    return run_job(options, name, model, data, learning_rate, steps, output, **train).trainer_state()["log_history"]


def run_job(options, name, model, data, learning_rate, steps, output, sections=None, **train):
    """The same, returning the job; `sections` are more of the job file's."""
    job = {
        "name": name,
        "model": model,
        "data": data,
        "train": {
            "max_steps": steps,
            "per_device_train_batch_size": options.batch // options.cores,
            "learning_rate": learning_rate,
            "train_sampling_strategy": "sequential",
            "logging_steps": 1,
            **train,
        },
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(output),
        **(sections or {}),
    }
    with service.Daemon(options.traind) as daemon:
        return daemon.run(job)


def run(main):
    """Runs a comparison. A job that does not complete ends it with a one-line error."""
    try:
        main()
    except service.JobFailed as failure:
        sys.exit(f"the job did not complete: {failure}")
