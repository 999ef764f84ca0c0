"""Plans large models on machines that are not here, from their configs alone, and prints the table of docs/parallelism.md.

Times and memory are predictions; where the CUDA plugin is installed, the memory of GPUs is its compiler's.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import service

jobs = service.jobs
BERT_LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 128256,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
}
CONFIGS = {
    "bert-large": {"model_type": "bert", "vocab_size": 30522, "max_position_embeddings": 512, **BERT_LARGE},
    "roberta-large": {"model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 514, **BERT_LARGE},
    "t5-3b": {
        "model_type": "t5",
        "vocab_size": 32128,
        "d_model": 1024,
        "d_ff": 16384,
        "d_kv": 128,
        "num_heads": 32,
        "num_layers": 24,
        "decoder_start_token_id": 0,
    },
    "llama-8b": {
        **LLAMA,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
    "llama-70b": {
        **LLAMA,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
    },
    "gpt2-175b": {
        "model_type": "gpt2",
        "vocab_size": 50257,
        "n_positions": 2048,
        "n_embd": 12288,
        "n_layer": 96,
        "n_head": 96,
    },
}
LORA = {"peft": {"method": "lora", "r": 16}}


@dataclass
class Example:
    """A model, its rows, and machines: platform, device, hosts and cores per host."""

    model: str
    task: str
    precision: str
    lengths: dict
    machines: tuple
    # Rows of a core and batch, and batches of a step.
    rows: int = 1
    batches: int = 1
    across_hosts: bool = False
    sections: dict = field(default_factory=dict)


def causal(model, tokens, machines, **more):
    precision = more.pop("precision", "bf16")
    return Example(model, "causal-lm", precision, {"block_size": tokens}, machines, **more)


TRN1 = ("neuron", "trn1", 1, 32)
V100 = {hosts: ("cuda", "v100", hosts, 8) for hosts in (8, 16)}
H100 = {hosts: ("cuda", "h100", hosts, 8) for hosts in (1, 8)}
T5 = {"max_source_length": 512, "max_target_length": 128}
EXAMPLES = {
    "bert": Example("bert-large", "masked-lm", "bf16", {"max_length": 128}, TRN1, rows=16, batches=32),
    "roberta-8": Example("roberta-large", "masked-lm", "fp16", {"max_length": 512}, V100[8], rows=16, batches=4),
    "roberta-16": Example("roberta-large", "masked-lm", "fp16", {"max_length": 512}, V100[16], rows=16, batches=2),
    "t5-8": Example("t5-3b", "seq2seq-lm", "fp16", T5, V100[8], batches=8),
    "t5-16": Example("t5-3b", "seq2seq-lm", "fp16", T5, V100[16], batches=4),
    "llama-8b-trn1": causal("llama-8b", 4096, TRN1),
    "llama-8b-trn1-lora": causal("llama-8b", 4096, TRN1, batches=8, sections=LORA),
    "llama-8b-h100": causal("llama-8b", 8192, H100[1], batches=2),
    "llama-8b-h100-lora": causal("llama-8b", 8192, H100[1], batches=2, sections=LORA),
    "llama-70b-h100": causal("llama-70b", 8192, H100[8], batches=2, across_hosts=True),
    "llama-70b-a100": causal("llama-70b", 8192, ("cuda", "a100-80", 8, 8), across_hosts=True),
    "llama-70b-trn1": causal("llama-70b", 4096, ("neuron", "trn1", 16, 32), across_hosts=True),
    "gpt2-175b": causal("gpt2-175b", 2048, ("cuda", "a100-40", 120, 8), batches=2, across_hosts=True, precision="fp16"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXAMPLES)}; every one without")
    options = parser.parse_args()
    unknown = set(options.names) - set(EXAMPLES)
    if unknown:
        parser.error(f"no plan is called {', '.join(sorted(unknown))}")
    print("| plan | rows per step | first mesh | memory per core | rows/s |\n| --- | ---: | --- | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="traind.") as folder, service.Daemon(options.traind) as daemon:
        for name in options.names or EXAMPLES:
            print(line(name, EXAMPLES[name], plan(daemon, Path(folder), EXAMPLES[name])), flush=True)


def plan(daemon, folder, example):
    """The first mesh of an example's plan."""
    model = folder / example.model
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(CONFIGS[example.model]))
    row = {"text": "A text.", "source": "A source.", "target": "A target."}
    (folder / "train.jsonl").write_text(json.dumps(row) + "\n")
    platform, device, hosts, cores = example.machines
    search = jobs.MeshSearch(
        platform=platform, device=device, hosts=hosts, cores_per_host=cores, across_hosts=example.across_hosts
    )
    job_file = json.dumps(job(folder, model, example))
    request = jobs.PlanJobRequest(job_file=job_file, base_dir=str(folder), search=search)
    return daemon.stub.PlanJob(request).meshes[0]


def job(folder, model, example):
    return {
        "name": "plan",
        "model": {"name_or_path": str(model), "task": example.task, "from_config": not example.sections},
        "data": {"train": str(folder / "train.jsonl"), **example.lengths},
        "train": {
            "per_device_train_batch_size": example.rows,
            "gradient_accumulation_steps": example.batches,
            example.precision: True,
        },
        "output_dir": str(folder / "out"),
        **example.sections,
    }


def line(name, example, mesh):
    """A row of the table."""
    _, _, hosts, cores = example.machines
    rows = example.rows * example.batches * hosts * cores
    size = f"{mesh.bytes_per_core / 1e9:.1f} GB{'' if mesh.fits else ', does not fit'}"
    speed = f"{mesh.rows_per_second:,.0f}" if mesh.rows_per_second >= 10 else f"{mesh.rows_per_second:.1f}"
    return f"| {name} | {rows:,} | {description(mesh)} | {size} | {speed} |"


def description(mesh):
    axes = [f"{axis} {getattr(mesh, axis)}" for axis in ("data", "tensor", "pipeline") if getattr(mesh, axis) > 1]
    settings = [
        (f"interleave {mesh.pipeline_interleave}", mesh.pipeline_interleave > 1),
        (f"{mesh.microbatches} micro-batches", mesh.pipeline > 1),
        (f"{mesh.gradient_accumulation_steps} batches", mesh.gradient_accumulation_steps > 1),
        (f"`{mesh.fsdp}`", mesh.fsdp != "no"),
        ("sequence parallel", mesh.sequence_parallel),
        ("recomputed", mesh.gradient_checkpointing),
        ("compiled", mesh.compiled),
    ]
    return ", ".join([" × ".join(axes), *(text for text, holds in settings if holds)])


if __name__ == "__main__":
    main()
