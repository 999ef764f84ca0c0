"""The cost of checkpoints: the time during which weights were copied and no step could run."""

import service
import traind_side

STEPS = 40
SAVE_STEPS = 10


def measure(options, work, scratch):
    """The mean stall in seconds, its share of the time between two checkpoints, and the mean time of background writing."""
    train = {"max_steps": STEPS, "save_steps": SAVE_STEPS, "eval_strategy": "no", "logging_steps": 1}
    with service.Daemon(options.traind) as daemon:
        done = daemon.run(traind_side.job(work, scratch / "saving", **train))
    saved = [message for _, message in done.of_kind("saved") if "checkpoint-" in message.path]
    steps = [time for time, _ in done.of_kind("step")]
    stall = sum(message.stall_seconds for message in saved) / len(saved)
    between = (steps[-1] - steps[0]) / (len(steps) - 1) * SAVE_STEPS
    return {
        "stall_seconds": stall,
        "stall_share": stall / between,
        "steps_between": SAVE_STEPS,
        "write_seconds": sum(message.seconds for message in saved) / len(saved),
        "bytes": saved[-1].bytes,
    }
