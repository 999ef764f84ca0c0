"""How near a training step comes to what the cores can multiply."""

import json
import subprocess

import peer_sides


def gemm_flops_per_second(options, work, model):
    """The FLOP/s of one core, for the largest product of a layer."""
    config = json.loads((model / "config.json").read_text())
    hidden, inner = hidden_sizes(config)
    sizes = (work.batch * work.length, hidden, inner)
    said = peer_sides.program(options.peers_python, "gemm_rate.py", *sizes, stdout=subprocess.PIPE, text=True)
    return float(said.stdout) * 1e9


def step_flops(work, model):
    """The floating-point operations of the products of a step: forward once, backward twice."""
    config = json.loads((model / "config.json").read_text())
    hidden, inner = hidden_sizes(config)
    layers = config.get("num_hidden_layers") or config["n_layer"]
    tokens = work.batch * work.length
    weights = layers * (4 * hidden * hidden + 2 * hidden * inner)
    if work.task == "causal-lm":
        weights += hidden * config["vocab_size"]
    scores = layers * work.length * hidden
    return 3 * 2 * tokens * (weights + 2 * scores)


def hidden_sizes(config):
    hidden = config.get("hidden_size") or config["n_embd"]
    return hidden, config.get("intermediate_size") or config.get("n_inner") or 4 * hidden
