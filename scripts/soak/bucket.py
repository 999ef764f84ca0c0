"""Kills runners whose checkpoints and model are in a bucket. Each job continues on an empty disk, and must end with the
bits of an uninterrupted one.

The bucket is of moto's S3 server. Runners need no daemon: every attempt has a run folder of its own.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import checkpoints

BUCKET = "soak"
TRAIN = {"max_steps": checkpoints.STEPS, "save_steps": checkpoints.STEPS // checkpoints.SAVES}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["runner", "plugin", "model", "server"]:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="traind-soak-") as folder, Server(arguments.server) as server:
        os.environ.update(CREDENTIALS, AWS_ENDPOINT_URL=server.url)
        soak(arguments, Path(folder), server)


class Server:
    """moto's S3 server with one bucket, on a port of its own."""

    def __init__(self, program):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [program, "-H", "127.0.0.1", "-p", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        for _ in range(200):
            try:
                self.request("PUT", "")
                return self
            except urllib.error.URLError:
                time.sleep(0.1)
        raise RuntimeError("the server did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def request(self, method, key):
        headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request"}
        request = urllib.request.Request(f"{self.url}/{BUCKET}/{key}", method=method, headers=headers)
        with urllib.request.urlopen(request) as answer:
            return answer.read()


def soak(arguments, folder, server):
    checkpoints.write_inputs(folder, arguments.model)
    whole = checkpoints.Run(arguments, folder, "whole", TRAIN, {})
    whole.end(check=True)
    started = time.monotonic()
    check(whole, run_once(arguments, folder, server, "first", 0))
    seconds = time.monotonic() - started
    done, runs, differing = 0, 0, 0
    while done < arguments.kills:
        kills = min(4, arguments.kills - done)
        differing += check(whole, run_once(arguments, folder, server, f"killed-{runs}", kills, seconds))
        done, runs = done + kills, runs + 1
    checkpoints.report("kills on empty disks", done, f"{runs} runs", differing)


def run_once(arguments, folder, server, name, kills, seconds=0.0):
    """Runs a job, killing it `kills` times; returns its trace and weights from the bucket."""
    for attempt in range(kills + 1):
        train = {**TRAIN, "resume_from_checkpoint": "auto"}
        run = checkpoints.Run(arguments, folder, f"{name}-{attempt}", train, {})
        # A host without anything of the job.
        run.spec["job"]["output_dir"] = f"s3://{BUCKET}/{name}"
        if attempt < kills:
            run.kill_after(random.uniform(0, seconds))
        else:
            run.end(check=True)
        shutil.rmtree(run.folder)
    history = json.loads(server.request("GET", f"{name}/trainer_state.json"))["log_history"]
    trace = [[entry[key] for key in checkpoints.TRACED] for entry in history if "loss" in entry]
    return trace, server.request("GET", f"{name}/model.safetensors")


def check(whole, result):
    """Returns 1 if a result differs from that of the uninterrupted run."""
    differs = result != whole.result()
    if differs:
        print("a run differs", file=sys.stderr, flush=True)
    return int(differs)


if __name__ == "__main__":
    main()
