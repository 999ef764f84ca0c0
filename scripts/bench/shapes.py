"""Trains models with random weights on rows of one length here, with Hugging Face's Trainer (adapters with PEFT) and, for
BERT and GPT-2, in JAX, in turn.

All take as many rows of the same length, in float32 on two cores; traind and the Trainer take the same rows in the same
order. Each speed is the median over the logged intervals after the warm-up, and rounds alternate, since the machine's
speed drifts. The loss logged last is printed too, for orientation: new heads, adapters and dropout are drawn differently.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import efficiency
import machine
import peer_sides
import report
import rounds
import service
from work import Work

CORES = 2
WARM_UP_STEPS = 10
# Texts of about eight tokens, so that no source is shorter than its length, and a row gives a block.
TEXTS = 100
TABLE = rounds.Table(15, 17, (rounds.Column("loss", "last loss", 10, 4),))
LORA = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}
SHARED = {"bf16": False, "sampling": "sequential"}


def dense(name, family, shape, task, batch, length, steps, **more):
    """A work on texts that fill their length."""
    return Work(name, family, shape, task, batch, length, steps, texts=TEXTS, **SHARED, **more)


def causal(name, shape, length, steps, **more):
    return dense(name, "llama", shape, "causal-lm", 4, length, steps, **more)


def seq2seq(shape, length, target_length, steps):
    return dense("t5", "t5", shape, "seq2seq-lm", 8, length, steps, target_length=target_length)


def images(shape, pixels, steps):
    return Work("vit", "vit", shape, "image-classification", 16, 0, steps, pixels=pixels, **SHARED)


def named(works):
    return {work.name: work for work in works}


WORKS = {
    "shapes": named([
        causal("llama", "llama-25m", 512, 40),
        causal("llama-lora", "llama-25m", 512, 40, lora=LORA),
        seq2seq("t5-small", 256, 64, 40),
        images("vit-s", 224, 40),
    ]),
    "dense": named([
        dense("minilm-dense", "bert", "small", "sequence-classification", 32, 32, 80),
        dense("bert-base-dense", "bert", "bert-base", "sequence-classification", 16, 128, 20),
        dense("gpt2-dense", "gpt2", "gpt2", "causal-lm", 4, 512, 20),
    ]),
}  # fmt: skip
# Shows nothing but that it works.
BRIEF = {
    "shapes": named([
        causal("llama", "tiny", 64, 20),
        causal("llama-lora", "tiny", 64, 20, lora=LORA),
        seq2seq("tiny", 64, 16, 20),
        images("tiny", 32, 20),
    ]),
    "dense": named([
        dense("minilm-dense", "bert", "tiny", "sequence-classification", 8, 32, 20),
        dense("bert-base-dense", "bert", "tiny", "sequence-classification", 8, 64, 20),
        dense("gpt2-dense", "gpt2", "tiny", "causal-lm", 4, 64, 20),
    ]),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--jax-python", required=True)
    parser.add_argument("--model", required=True, type=Path, help="a folder with a tokenizer")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--family", required=True, choices=[*WORKS, *names()], help="a group of models or one of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brief", action="store_true", help="tiny models and few steps")
    parser.add_argument("--out", type=Path, help="write the measurements of every run to this file as JSON")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    print(machine.description(), flush=True)
    groups = BRIEF if options.brief else WORKS
    results = {}
    print(TABLE.header(), flush=True)
    for group, works in groups.items():
        for name, work in works.items():
            if options.family in (group, name):
                with tempfile.TemporaryDirectory(prefix="bench.") as scratch:
                    results[name] = bench(options, work, SIDES[group], Path(scratch))
    if options.out:
        options.out.write_text(json.dumps({"machine": machine.description()} | results, indent=1))


def names():
    return [name for works in WORKS.values() for name in works]


def bench(options, work, sides, scratch):
    """Prints and returns {side: [measurements of each round]}."""
    model, rows = prepare(options, work, scratch)
    measure = lambda side: SIDE[side](options, work, model, rows, scratch)
    results = rounds.alternate(sides, options.rounds, measure)
    print("\n".join(TABLE.lines(work.name, results)), flush=True)
    if "jax" in results:
        gemm = efficiency.gemm_flops_per_second(options, work, model)
        step = efficiency.step_flops(work, model) * median_speed(results["traind"]) / work.batch
        print(f"{work.name:15} multiplies at {step / CORES / gemm:.2f} of {gemm / 1e9:.0f} GFLOP/s a core", flush=True)
    return results


def prepare(options, work, scratch):
    """A model with random weights, and rows for all steps."""
    model, rows = scratch / "model", scratch / "rows.jsonl"
    peer(options, "random_model.py", work.family, work.task, options.model, model, work.shape)
    texts, count = options.data / "train.parquet", work.batch * work.steps
    peer(options, "speed_rows.py", describe(work, model, rows, scratch), texts, rows, count)
    return model, rows


def describe(work, model, rows, scratch, compile=False):
    """Writes the description of `work` for the peers' programs."""
    file = scratch / "work.json"
    file.write_text(json.dumps(work.trainer(model, rows, compile=compile, cpu=True, threads=CORES)))
    return file


def peer(options, script, *arguments):
    peer_sides.program(options.peers_python, script, *arguments)


def traind(options, work, model, rows, scratch, cores=CORES):
    job = work.job(model, rows, cores) | {
        "resources": {"platform": "cpu", "cores": cores},
        # CPU cores share memory, where two complete optimizers double the traffic.
        "parallel": {"shard_optimizer_state": cores > 1},
        "output_dir": str(scratch / "output"),
    }
    with service.Daemon(options.traind) as daemon:
        logged = [(time, message.step, message.loss) for time, message in daemon.run(job).of_kind("step")]
    speeds = [
        (step, (step - step_before) * work.batch / (time - before))
        for (before, step_before, _), (time, step, _) in zip(logged, logged[1:], strict=False)
    ]
    return measurements(speeds, logged[-1][2])


def traind_on_one_core(*arguments):
    """On one processor: a single core has the threads of all that it may use."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:1])
    try:
        return traind(*arguments, cores=1)
    finally:
        os.sched_setaffinity(0, allowed)


def traind_in_bfloat16(options, work, *arguments):
    return traind(options, replace(work, bf16=True), *arguments)


def trainer(options, work, model, rows, scratch, compile=False):
    out = scratch / "speed.json"
    peer(options, "speed_trainer.py", describe(work, model, rows, scratch, compile), out)
    return measured_by_peer(out)


def trainer_compiled(*arguments):
    """By torch.compile."""
    return trainer(*arguments, compile=True)


def trainer_in_bfloat16(options, work, *arguments):
    """Under PyTorch's autocast."""
    return trainer(options, replace(work, bf16=True), *arguments)


def jax(options, work, model, rows, scratch):
    out = scratch / "speed.json"
    peer_sides.program(options.jax_python, "jax_step.py", describe(work, model, rows, scratch), out)
    return measured_by_peer(out)


def measured_by_peer(file):
    measured = json.loads(file.read_text())
    return measurements(measured["speeds"], measured["losses"][-1])


SIDE = {
    "traind": traind,
    "traind, 1 core": traind_on_one_core,
    "traind, bf16": traind_in_bfloat16,
    "trainer": trainer,
    "trainer, compiled": trainer_compiled,
    "trainer, bf16": trainer_in_bfloat16,
    "jax": jax,
}
SIDES = {"shapes": ["traind", "trainer"], "dense": list(SIDE)}


def measurements(speeds, loss):
    return {"samples_per_second": median(speed for step, speed in speeds if step > WARM_UP_STEPS), "loss": loss}


def median_speed(runs):
    return median(report.measurements(runs, "samples_per_second"))


if __name__ == "__main__":
    try:
        main()
    except service.JobFailed as failure:
        sys.exit(f"the job did not complete: {failure}")
