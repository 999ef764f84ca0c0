"""The tests of the models against the committed fixtures: one batch of every family and task in float32, whose logits, loss
and gradients PyTorch computed in float64."""

import os
import re
import subprocess
import threading

TEST = re.compile(r"^test fixtures::(\w+)_is_that_of_transformers \.\.\. (ok|FAILED)$", re.MULTILINE)
# Tests side by side.
THREADS_MAX = 8


def run(program, fixtures, environment, platform, seconds_max):
    """Runs the program of the tests. Returns which families were found equal or not, and what those print that were not."""
    environment = os.environ | environment | {"TRAIND_TEST_PLATFORM": platform, "TRAIND_TEST_FIXTURES": str(fixtures)}
    threads = min(THREADS_MAX, os.cpu_count() or 1)
    command = [program, "is_that_of_transformers", f"--test-threads={threads}"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    limit = threading.Timer(seconds_max, process.kill)
    limit.start()
    text, _ = process.communicate()
    limit.cancel()
    return verdict(text, is_whole=process.returncode >= 0)


def verdict(text, is_whole):
    found = {family.replace("_", "-"): result for family, result in TEST.findall(text)}
    by_result = {"equal": "ok", "differing": "FAILED"}
    families = {name: sorted(it for it in found if found[it] == result) for name, result in by_result.items()}
    return families | {"all": is_whole, "failures": text.partition("\nfailures:\n")[2][:4000]}
