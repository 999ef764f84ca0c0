"""Shared by the checks of output folders: jobs without a daemon, and the messages of libraries that load their output."""

import contextlib
import json
import logging
import subprocess
import warnings
from pathlib import Path


def run_alone(traind, folder, job):
    """Runs a job in a folder without a daemon, and returns its output folder."""
    file = folder / f"{job['name']}.json"
    file.write_text(json.dumps(job))
    runner = Path(traind).with_name("traind-runner")
    subprocess.run([runner, file.name], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / job["output_dir"]


class Said(logging.Handler):
    """Keeps what libraries log as a warning or worse, and Python's warnings but those of torch."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.logged, self.warned = [], []

    def emit(self, record):
        self.logged.append(record.getMessage())


@contextlib.contextmanager
def listening(*libraries):
    """Yields what these libraries log meanwhile; Python's warnings are there at the end."""
    said = Said()
    loggers = [logging.getLogger(library) for library in libraries]
    for logger in loggers:
        logger.addHandler(said)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    for logger in loggers:
        logger.removeHandler(said)
    said.warned = [str(it.message) for it in caught if "torch" not in str(it.filename)]
