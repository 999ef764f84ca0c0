"""The other sides: Python programs that write their measurements as JSON."""

import json
import subprocess
import time
from pathlib import Path

PEERS = Path(__file__).parents[1] / "peers"


def trainer(options, work, scratch):
    return run(options.peers_python, "trainer.py", work, scratch, "--threads", 2)


def trainer_grouped(options, work, scratch):
    """With batches of rows of similar length, as traind has."""
    return trainer_grouped_with(options, work, scratch)


def trainer_grouped_with(options, work, scratch, *more):
    arguments = ["--threads", 2, "--sampling", "group_by_length", *more]
    return run(options.peers_python, "trainer.py", work, scratch, *arguments)


def trainer_grouped_compiled(options, work, scratch):
    """The same with steps by torch.compile."""
    return trainer_grouped_with(options, work, scratch, "--compile")


def trainer_grouped_bf16(options, work, scratch):
    """The same under PyTorch's autocast to bfloat16."""
    return trainer_grouped_with(options, work, scratch, "--bf16")


def jax(options, work, scratch):
    return run(options.jax_python, "jax_trainer.py", work, scratch)


def jax_grouped(options, work, scratch):
    return run(options.jax_python, "jax_trainer.py", work, scratch, "--grouped")


def run(python, script, work, scratch, *arguments):
    out = scratch / "measurements.json"
    command = [
        python, script, "--model", work.model, "--train", work.train, "--validation", work.validation,
        "--labels", work.labels, "--epochs", work.epochs, "--batch", work.batch,
        "--learning-rate", work.learning_rate, "--out", out, *arguments,
    ]  # fmt: skip
    begin = time.perf_counter()
    program(*command)
    return json.loads(out.read_text()) | {"whole_seconds": time.perf_counter() - begin}


def program(python, script, *arguments, **options):
    """Runs one of the peers' programs; `options` are those of subprocess.run."""
    return subprocess.run([str(it) for it in (python, PEERS / script, *arguments)], check=True, **options)
