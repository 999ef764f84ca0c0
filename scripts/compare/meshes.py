"""Trains small random models of every family on several meshes, with dropout, and prints how far losses, gradient norms and
weights are from those of one core.

Exits with 1 where a loss differs by more than LOSS_LIMIT, relative, or the weights by more than WEIGHTS_LIMIT of their
change.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import both
import dpo_losses
import families
import sft_losses
import trl_runs
from both import peers

import service  # found by both
import steps
import tensors

# The cores among which a family can divide the heads of its small model, where one matrix projects queries, keys and
# values.
TENSOR_MAX = {"phi3": 2}
LOSS_LIMIT = 1e-5
WEIGHTS_LIMIT = 1e-5
LEARNING_RATE = 1e-3
# Some gradients are rounding noise, such as those of the biases of keys. Adam makes no full steps of what is far below.
ADAM_EPSILON = 1e-4
# Rows of a step.
BATCH = 8
DROPOUT = 0.1
# The cores of a mesh, and keys of its sections `parallel` and `train`.
MESHES = {
    "D8": (8, {}, {}),
    "T2": (2, {"tensor": 2}, {}),
    "D2 T2": (4, {"tensor": 2, "shard_optimizer_state": True}, {"gradient_accumulation_steps": 2}),
    "D4 T2": (8, {"tensor": 2}, {}),
    "T4": (4, {"tensor": 4}, {"gradient_checkpointing": True}),
    "SP2": (2, {"tensor": 2, "sequence_parallel": True}, {"gradient_checkpointing": True}),
    "D2 SP2": (4, {"tensor": 2, "sequence_parallel": True, "fsdp": "full_shard"}, {"gradient_accumulation_steps": 2}),
    "FSDP2": (2, {"fsdp": "full_shard"}, {}),
    "FSDP4": (4, {"fsdp": "full_shard"}, {"gradient_accumulation_steps": 2}),
    "FSDP8": (8, {"fsdp": "full_shard"}, {}),
    "FSDP2 T2": (4, {"fsdp": "full_shard", "tensor": 2}, {"gradient_checkpointing": True}),
    "FSDP4 T2": (8, {"fsdp": "full_shard", "tensor": 2}, {"gradient_accumulation_steps": 2}),
    "GRAD4": (4, {"fsdp": "shard_grad_op"}, {"gradient_accumulation_steps": 2}),
    "P2 D2": (4, {"pipeline": 2}, {}),
    "P2 D4": (8, {"pipeline": 2}, {}),
    "P2 int.": (2, {"pipeline": 2, "pipeline_interleave": 2}, {"gradient_checkpointing": True}),
    "P2 off.": (2, {"pipeline": 2, "offload": ["activations", "optimizer"]}, {"gradient_accumulation_steps": 2}),
    "P4": (4, {"pipeline": 4}, {}),
    "P4 int.": (4, {"pipeline": 4, "pipeline_interleave": 2}, {"gradient_accumulation_steps": 2}),
    "T4 P2": (8, {"tensor": 4, "pipeline": 2}, {}),
    "D2 T2 P2": (8, {"pipeline": 2, "tensor": 2, "shard_optimizer_state": True}, {"gradient_accumulation_steps": 2}),
    "FSDP2 P2": (4, {"pipeline": 2, "fsdp": "full_shard"}, {}),
}
# Texts with the long words of each, and the families that stand for all.
EMBEDDING_TASKS = {"embedding": ["bert", "llama", "t5"]}
MORE_TASKS = families.CHAT_TASKS | EMBEDDING_TASKS
WRITE_ROWS = {"sft": sft_losses.write_rows, "dpo": dpo_losses.write_rows}
DATA = families.DATA | {
    "sft": {"max_length": 64, "assistant_only_loss": True},
    "dpo": {"max_length": 48},
    "embedding": {"max_length": 64, "texts": ["source", "target"]},
}
# Dropout is on, unlike by default.
DPO = {"dpo": {"disable_dropout": False}}
# Names of every family: embeddings by another optimizer, and norms with a rate and a decay of their own.
PARAM_GROUPS = [
    {"match": "embed|wte|shared", "learning_rate": 0.05, "optim": "sgd", "optim_args": {"momentum": 0.9}},
    {"match": "(?i)norm|ln_", "learning_rate": 2e-3, "weight_decay": 0.1},
]
# The groups of adapters: LoRA+'s rate for second matrices, and magnitudes by another optimizer.
ADAPTER_GROUPS = [
    {"match": "lora_B", "learning_rate": 4e-3},
    {"match": "magnitude", "learning_rate": 0.05, "optim": "sgd", "optim_args": {"momentum": 0.9}},
]
ADAPTERS = {"peft": {"method": "lora", "target_modules": "all-linear", "lora_dropout": DROPOUT, "use_dora": True}}
ENCODER_DROPOUT = ["hidden_dropout_prob", "attention_probs_dropout_prob"]
DECODERS = ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "smollm3", "granite", "olmo2"]
DECODERS += ["olmo3", "eurobert"]
DROPOUT_KEYS = {
    "distilbert": ["dropout", "attention_dropout"],
    "modernbert": ["embedding_dropout", "attention_dropout", "mlp_dropout", "classifier_dropout"],
    "gpt2": ["resid_pdrop", "embd_pdrop", "attn_pdrop"],
    "phi3": ["attention_dropout", "resid_pdrop"],
    **dict.fromkeys(["t5", "mt5"], ["dropout_rate"]),
    **dict.fromkeys(["bart", "mbart"], ["dropout", "attention_dropout", "activation_dropout"]),
    **dict.fromkeys(DECODERS, ["attention_dropout"]),
}


def main():
    parser = families.parser(__doc__, MORE_TASKS)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--mesh", choices=MESHES, action="append", help="instead of every mesh; can be repeated")
    parser.add_argument("--adapters", action="store_true", help="train adapters of all linear layers")
    parser.add_argument("--optim", default="adamw_torch", help="the optimizer of the jobs")
    parser.add_argument(
        "--param-groups",
        action="store_true",
        help="give embeddings and norms, or parts of adapters, settings of their own",
    )
    parser.add_argument("--layers", type=int, default=2, help="of each stack; each part of a pipeline needs one")
    parser.add_argument("--hosts", type=int, default=1, help="divide the cores between hosts, processes of this one")
    options = parser.parse_args()
    meshes = {name: mesh for name, mesh in MESHES.items() if name in (options.mesh or MESHES)}
    for name, reason in [(name, obstacle(mesh, options)) for name, mesh in meshes.items()]:
        if reason:
            print(f"{name} is left out: {reason}", flush=True)
            del meshes[name]
    if not meshes:
        sys.exit("no mesh is left")
    print(f"{'':36}{'mesh':10}{'loss':>12}{'gradient norm':>16}{'weights':>12}")
    with service.Daemon(options.traind, cores=8) as daemon:
        equal = [compare(options, daemon, meshes, *pair) for pair in families.pairs(options, MORE_TASKS)]
    print(f"(relative; limits: {LOSS_LIMIT} for losses, {WEIGHTS_LIMIT} of their change for weights)")
    sys.exit(0 if all(equal) else 1)


def obstacle(mesh, options):
    """Why a mesh cannot be compared, if so."""
    cores, parallel, _ = mesh
    if data_shards(cores, parallel) % options.hosts:
        return f"{options.hosts} hosts cannot divide its data axis of {data_shards(cores, parallel)} evenly"
    if parts(parallel) > options.layers:
        return f"its pipeline has {parts(parallel)} parts, and a stack {options.layers} layers; see --layers"
    return None


def compare(options, daemon, meshes, family, task):
    """Prints a line for each mesh; returns whether all are equal to one core."""
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        rows, model = inputs(options, family, task, scratch, f"layers={options.layers}")

        def train(name, cores, parallel, more):
            described = job(family, task, model, rows, scratch / name, cores, parallel, more)
            described |= (ADAPTERS if options.adapters else {}) | (DPO if task == "dpo" else {})
            described["train"] |= {"max_steps": options.steps, "optim": options.optim}
            groups = ADAPTER_GROUPS if options.adapters else PARAM_GROUPS
            described["train"] |= {"param_groups": groups} if options.param_groups else {}
            on_hosts = options.hosts > 1 and name != "one"
            return run_on_hosts(options, described, scratch / "runs") if on_hosts else run(daemon, described)

        start = weights(model)
        one = train("one", 1, {}, {})
        equal = True
        for name, mesh in meshes.items():
            if mesh[1].get("tensor", 1) > TENSOR_MAX.get(family, 4):
                print(f"{family:12} {task:23}{name:10} left out: its heads divide among {TENSOR_MAX[family]} cores")
                continue
            found = train(name.replace(" ", "-"), *mesh)
            loss, norm = (largest_difference(one[0], found[0], key) for key in ["loss", "grad_norm"])
            weight = change_missed(start, one[1], found[1])
            is_equal = loss <= LOSS_LIMIT and weight <= WEIGHTS_LIMIT
            verdict = "equal" if is_equal else "not one core's run"
            print(f"{family:12} {task:23}{name:10}{loss:12.1e}{norm:16.1e}{weight:12.1e}  {verdict}", flush=True)
            equal = equal and is_equal
    return equal


def inputs(options, family, task, folder, shape):
    """Writes the rows and the model of a job; returns their paths."""
    rows, model = folder / "train.jsonl", folder / "model"
    of_texts = "causal-lm" if task in families.CHAT_TASKS else task
    of_rows = "seq2seq-lm" if task in EMBEDDING_TASKS else of_texts
    peers(options, "task_rows.py", of_rows, options.data / "train.parquet", rows)
    peers(options, "random_model.py", family, of_texts, options.model, model, shape)
    if task in families.CHAT_TASKS:
        WRITE_ROWS[task]("messages", rows, rows)
        trl_runs.add_template(model)
    return rows, model


def parts(parallel):
    """The parts of the model in a pipeline."""
    return parallel.get("pipeline", 1) * parallel.get("pipeline_interleave", 1)


def data_shards(cores, parallel):
    return cores // parallel.get("tensor", 1) // parallel.get("pipeline", 1)


def job(family, task, model, rows, output, cores, parallel, more):
    # Texts are compared with those of one batch.
    more = {key: value for key, value in more.items() if task not in EMBEDDING_TASKS or "accumulation" not in key}
    rows_per_core = BATCH // data_shards(cores, parallel) // more.get("gradient_accumulation_steps", 1)
    overrides = dict.fromkeys(DROPOUT_KEYS.get(family, ENCODER_DROPOUT), DROPOUT)
    # One padded length, and so one program a job. Blocks of text and images have one length anyway.
    padding = {} if task in ("causal-lm", "image-classification") else {"pad_to_max_length": True}
    return {
        "name": "meshes",
        "model": {**families.model_section(task, model), "config_overrides": overrides},
        "data": {"train": str(rows), **DATA[task], **padding},
        "train": {
            "per_device_train_batch_size": rows_per_core,
            "learning_rate": LEARNING_RATE,
            "weight_decay": 0.01,
            "adam_epsilon": ADAM_EPSILON,
            "logging_steps": 1,
            **more,
        },
        "resources": {"platform": "cpu", "cores": cores},
        "parallel": parallel,
        "output_dir": str(output),
    }


def run(daemon, job):
    """The log entries of the steps, by step, and the trained weights."""
    log = daemon.run(job).trainer_state()["log_history"]
    return steps.by_step(log), weights(Path(job["output_dir"]))


def run_on_hosts(options, job, folder):
    """The same of runners without a daemon, one for each host."""
    resources = job["resources"]
    job["resources"] = {**resources, "cores": resources["cores"] // options.hosts, "hosts": options.hosts}
    output = Path(job["output_dir"])
    folder = folder / output.name
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text(json.dumps(job))

    def start(rank):
        place = {"TRAIND_HOST_RANK": str(rank), "TRAIND_HOSTS": str(options.hosts)}
        with open(folder / f"host-{rank}.log", "w") as log:
            runner = [options.traind.with_name("traind-runner"), "job.yaml"]
            return subprocess.Popen(runner, cwd=folder, env={**os.environ, **place}, stdout=log, stderr=log)

    ended = [runner.wait() for runner in [start(rank) for rank in range(options.hosts)]]
    if any(ended):
        sys.exit(f"runners ended with {ended}:\n" + "".join(log.read_text() for log in folder.glob("host-*.log")))
    log = json.loads((output / "trainer_state.json").read_text())["log_history"]
    return steps.by_step(log), weights(output)


def largest_difference(expect, found, key):
    """The largest relative difference; a missing step or a NaN counts as infinite."""
    differences = [abs(found.get(step, {}).get(key, math.nan) / entry[key] - 1) for step, entry in expect.items()]
    return max(math.inf if math.isnan(difference) else difference for difference in differences)


def weights(folder):
    """The float32 values of each tensor of a model's only file, or of its adapters."""
    adapters = folder / "adapter_model.safetensors"
    return tensors.floats(adapters if adapters.exists() else folder / "model.safetensors")


def change_missed(start, expect, found):
    """The norm of the difference of the trained weights over that of their change."""
    if set(expect) != set(found):
        return math.inf
    # The second matrix of an adapter starts as zeros, and the first ones are drawn.
    zeros = {name: [0.0] * len(values) for name, values in expect.items() if ".lora_B." in name}
    start = start | zeros
    names = [name for name in expect if name in start]
    missed = sum(square_distance(expect[name], found[name]) for name in names)
    return math.sqrt(missed / sum(square_distance(expect[name], start[name]) for name in names))


def square_distance(one, other):
    return sum((a - b) * (a - b) for a, b in zip(one, other, strict=True))


if __name__ == "__main__":
    both.run(main)
