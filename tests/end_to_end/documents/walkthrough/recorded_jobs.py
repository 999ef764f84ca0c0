"""Runs blocks of Python, and prints the job files that their estimators submit, as JSON."""

import json
import sys
import warnings

from traind import HuggingFace


class Recorder:
    """Takes the place of the connection to a daemon."""

    def __init__(self):
        self.jobs = []

    def submit(self, job_file):
        self.jobs.append(job_file)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    recorder = Recorder()
    HuggingFace.client = recorder
    for block in json.loads(sys.argv[1]):
        exec(block, {})
    print(json.dumps(recorder.jobs))
