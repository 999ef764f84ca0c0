"""Trains the job of `peers/jobs/real.py` on the model that TRAIND_REAL_MODEL names, with traind and with its peer."""

import argparse
import sys
from pathlib import Path

import both
import job_cases

import service  # found by both


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--jobs-python", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    options = parser.parse_args()
    with service.Daemon(options.traind) as daemon:
        different = job_cases.differing(options, daemon, options.folder, ["real"])
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    both.run(main)
