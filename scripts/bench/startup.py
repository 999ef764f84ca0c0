"""The time from a job's submission to its first step, with empty and with full caches."""

import service
import traind_side

PREPARATIONS = {
    "started": "runner started",
    "data_prepared": "data prepared",
    "model_loaded": "model loaded",
    "compiled": "first program ready",
    "step": "first step done",
}


def measure(options, work, scratch):
    """{"cold" or "warm": {what: seconds since the job was accepted}}"""
    cache = scratch / "cache"
    cache.mkdir()
    (cache / "plugins").symlink_to(options.plugins)
    job = traind_side.job(work, scratch / "output", max_steps=2, logging_steps=1, eval_strategy="no")
    with service.Daemon(options.traind, cache_dir=cache) as daemon:
        return {caches: marks(daemon.run(job)) for caches in ("cold", "warm")}


def marks(done):
    accepted = service.seconds(done.job.create_time)
    first_step = done.of_kind("step")[0][0]
    ready = {}
    for kind, name in PREPARATIONS.items():
        times = [time for time, _ in done.of_kind(kind) if time <= first_step]
        if times:
            # Programs of later steps may be compiled before the first step ends.
            ready[name] = (min if kind == "compiled" else max)(times) - accepted
    return ready
