"""Trains the same job on several of the meshes that the planner compares, and prints the predicted step times and their
order beside the measured ones.

The meshes are the planner's first one and others at equal distances in its order, so that fast and slow ones are measured.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import service

ROWS = 32
LENGTH = 128
# Steps whose programs may still be compiled.
FIRST_STEPS = 2


def main():
    options = parse_options()
    with service.Daemon(options.traind, cores=options.cores) as daemon, tempfile.TemporaryDirectory() as scratch:
        base = job(options, Path(scratch) / "planned")
        meshes = chosen(plan(daemon, base), options.meshes)
        measured = [
            step_seconds(daemon, on_mesh(base, mesh, Path(scratch) / str(place))) for place, mesh in enumerate(meshes)
        ]
    print(table(meshes, measured))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traind", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=4)
    parser.add_argument("--meshes", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12)
    return parser.parse_args()


def job(options, output):
    return {
        "name": "planner",
        "model": {"name_or_path": str(options.model), "task": "sequence-classification"},
        # One padded length, and so one program a job.
        "data": {"train": str(options.data / "train.parquet"), "max_length": LENGTH, "pad_to_max_length": True},
        "train": {
            "per_device_train_batch_size": ROWS // options.cores,
            "max_steps": options.steps,
            "logging_steps": 1,
            "save_strategy": "no",
        },
        "resources": {"platform": "cpu", "cores": options.cores},
        "output_dir": str(output),
    }


def plan(daemon, described):
    request = service.jobs.PlanJobRequest(
        job_file=json.dumps(described), base_dir=str(Path.cwd()), search=service.jobs.MeshSearch()
    )
    return list(daemon.stub.PlanJob(request).meshes)


def chosen(meshes, count):
    """`count` of the meshes that fit, from the first to the last one."""
    fitting = [mesh for mesh in meshes if mesh.fits]
    if len(fitting) <= count:
        return fitting
    return [fitting[place * (len(fitting) - 1) // (count - 1)] for place in range(count)]


def on_mesh(described, mesh, output):
    """The job with a mesh that the planner found."""
    parallel = {
        "data": mesh.data,
        "tensor": mesh.tensor,
        "pipeline": mesh.pipeline,
        "pipeline_interleave": mesh.pipeline_interleave,
        "sequence_parallel": mesh.sequence_parallel,
        "fsdp": mesh.fsdp,
    }
    if mesh.pipeline > 1:
        parallel["microbatches"] = mesh.microbatches
    train = {
        "per_device_train_batch_size": mesh.per_device_train_batch_size,
        "gradient_accumulation_steps": mesh.gradient_accumulation_steps,
        "gradient_checkpointing": mesh.gradient_checkpointing,
    }
    return {**described, "train": described["train"] | train, "parallel": parallel, "output_dir": str(output)}


def step_seconds(daemon, described):
    return seconds_per_step([second for second, _ in daemon.run(described).of_kind("step")])


def seconds_per_step(ends):
    """The median time between the ends of steps, without the first ones."""
    ends = ends[FIRST_STEPS - 1 :]
    return median(after - before for before, after in zip(ends, ends[1:], strict=False))


def table(meshes, measured):
    """A line for each mesh, and where the measured best stands in the planner's order."""
    order = sorted(range(len(meshes)), key=lambda place: measured[place])
    lines = [f"{'planned':>7} {'measured':>8}  {'mesh':54}{'predicted':>10}{'measured':>10}{'ratio':>7}"]
    for place, (mesh, seconds) in enumerate(zip(meshes, measured, strict=True)):
        lines.append(
            f"{place + 1:7} {order.index(place) + 1:8}  {name(mesh):54}{mesh.step_seconds:9.3f}s{seconds:9.3f}s"
            f"{mesh.step_seconds / seconds:7.2f}"
        )
    within = sum(abs(mesh.step_seconds / seconds - 1) <= 0.25 for mesh, seconds in zip(meshes, measured, strict=True))
    lines.append(f"the measured best is the planner's number {order[0] + 1}")
    lines.append(f"{within} of {len(meshes)} predictions are within 25 %")
    return "\n".join(lines)


def name(mesh):
    words = [f"{mesh.data} x {mesh.tensor} x {mesh.pipeline}"]
    words += [f"{mesh.microbatches} parts"] if mesh.pipeline > 1 else []
    words += [f"interleave {mesh.pipeline_interleave}"] if mesh.pipeline_interleave > 1 else []
    words += [mesh.fsdp] if mesh.fsdp != "no" else []
    words += ["positions"] if mesh.sequence_parallel else []
    words += ["recomputed"] if mesh.gradient_checkpointing else []
    return ", ".join(words)


if __name__ == "__main__":
    main()
