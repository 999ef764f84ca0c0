"""Trains random jobs with traind and with the tools that they come from, and compares losses, metrics and outputs."""

import argparse
import sys
import tempfile
from pathlib import Path

import both
import job_cases

import service  # found by both


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--jobs-python", required=True, help="an interpreter with TRL, PEFT and Pillow")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=10, help="jobs of each kind")
    parser.add_argument("--keep", type=Path, help="a folder that the jobs are written to and stay in")
    parser.add_argument("kinds", nargs="*", help="kinds of jobs; all by default")
    options = parser.parse_args()
    kinds = options.kinds or job_cases.listed(options, "kinds")
    seeds = range(options.seed, options.seed + options.count)
    names = [f"{kind}@{seed}" for seed in seeds for kind in kinds]
    with tempfile.TemporaryDirectory(prefix="random_jobs.") as scratch, service.Daemon(options.traind) as daemon:
        folder = options.keep or Path(scratch)
        different = job_cases.differing(options, daemon, folder, names)
    print(f"{len(names)} jobs, {len(different)} of which differ", *different)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    both.run(main)
