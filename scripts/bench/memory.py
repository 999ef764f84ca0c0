"""Gradient checkpointing: the compiler's count of the largest program's temporaries, and the losses."""

import service
import stubs
import traind_side

STEPS = 12

cores, cores_grpc = stubs.load("cores")


def measure(options, work, scratch):
    """Temporary bytes per core, seconds per step and losses, by whether activations are recomputed."""
    return {
        name: measurements(options, work, scratch / name, on)
        for name, on in {"kept": False, "recomputed": True}.items()
    }


def measurements(options, work, output, recomputed):
    train = {"max_steps": STEPS, "eval_strategy": "no", "logging_steps": 1, "gradient_checkpointing": recomputed}
    seen = []
    with service.Daemon(options.traind) as daemon:
        stub = cores_grpc.CoresStub(daemon.channel)

        def see(event):
            if event.WhichOneof("kind") == "step":
                listed = stub.ListCores(cores.ListCoresRequest()).cores
                seen.extend(core.usage.memory.temporary_bytes for core in listed)

        done = daemon.run(traind_side.job(work, output, **train), on_event=see)
    steps = done.of_kind("step")
    return {
        "temporary_bytes": max(seen),
        # Without the time in which steps wait for programs.
        "seconds_per_step": traind_side.step_time([message for _, message in steps])["compute"],
        "losses": [message.loss for _, message in steps],
    }
