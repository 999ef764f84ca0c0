"""Prints what a job of an example does."""

# Steps between two lines.
STEPS = 100


def show(event):
    kind = event.WhichOneof("kind")
    if kind == "step" and event.step.step % STEPS == 0:
        step = event.step
        print(
            f"step {step.step} of {step.max_steps}: loss {step.loss:.3f}, {step.tokens_per_second:.0f} tokens/s",
            flush=True,
        )
    elif kind == "evaluated":
        metrics = ", ".join(
            f"{name.removeprefix('eval_')} {value:.4g}" for name, value in sorted(event.evaluated.metrics.items())
        )
        print(f"epoch {event.evaluated.epoch:.1f}: {metrics}", flush=True)
