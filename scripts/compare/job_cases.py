"""Runs the jobs of `peers/jobs` with traind and with the tools that they come from, and compares them."""

import json
import shutil
import subprocess

import both

import service  # found by both

# A long run prints as it proceeds.
JOBS_AT_ONCE = 40


def peers(options, command, *arguments):
    subprocess.run([options.jobs_python, both.SCRIPTS / "peers" / "jobs", command, *arguments], check=True)


def listed(options, *kinds):
    command = [options.jobs_python, both.SCRIPTS / "peers" / "jobs", "list", *kinds]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def differing(options, daemon, folder, names):
    """Prints a line for each job; returns the names of those that differ."""
    parts = [names[start : start + JOBS_AT_ONCE] for start in range(0, len(names), JOBS_AT_ONCE)]
    for part in parts:
        compare(options, daemon, folder, part)
    return [name for name in names if json.loads((folder / name / "differences.json").read_text())]


def compare(options, daemon, folder, names):
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        peers(options, "write", folder, *missing)
        for name in missing:
            draw(daemon, folder / name)
        peers(options, "train", folder, *missing)
    for name in names:
        train(daemon, folder / name)
    peers(options, "check", folder, *names)


def draw(daemon, folder):
    """Saves what traind begins with, for the peer."""
    if not json.loads((folder / "case.json").read_text())["is_drawn"]:
        return
    job = job_of(folder, "drawn")
    job["train"] |= {"learning_rate": 0.0, "max_steps": 1, "save_strategy": "no", "load_best_model_at_end": False}
    # Schedules with a least rate need a higher one.
    job["train"] |= {"eval_strategy": "no", "lr_scheduler_type": "constant", "lr_scheduler_kwargs": {}}
    for key in ["early_stopping_patience", "early_stopping_threshold", "metric_for_best_model", "greater_is_better"]:
        job["train"].pop(key, None)
    try:
        daemon.run(job)
    except service.JobFailed:
        # The job itself will say it.
        pass


def train(daemon, folder):
    """Runs the job, and writes its state or its error."""
    resume = json.loads((folder / "case.json").read_text())["resume"]
    shutil.rmtree(folder / "ours", ignore_errors=True)
    try:
        run = daemon.run(job_of(folder, "ours"))
        if resume:
            job = job_of(folder, "ours")
            job["train"]["resume_from_checkpoint"] = str(folder / "ours" / f"checkpoint-{resume}")
            run = daemon.run(job)
        state = run.trainer_state()
    except service.JobFailed as failure:
        state = {"error": str(failure).removesuffix("\n").replace("\n", " ")}
    (folder / "ours.json").write_text(json.dumps(state))


def job_of(folder, output):
    """The job with the paths of its folder."""
    job = json.loads((folder / "job.json").read_text())
    job |= {"name": folder.name.replace("@", "-"), "output_dir": str(folder / output)}
    job["model"]["name_or_path"] = str(folder / "model")
    for split in ["train", "validation", "test"]:
        if split in job["data"]:
            job["data"][split] = placed(job["data"][split], folder)
    paths = [("dpo", "ref_model_name_or_path"), ("peft", "adapter_name_or_path"), ("embedding", "guide")]
    for section, key in paths:
        if key in job.get(section, {}):
            job[section][key] = str(folder / job[section][key])
    return job


def placed(files, folder):
    """Paths of files from their folder on, in a list or alone, or in mappings."""
    if isinstance(files, list):
        return [placed(file, folder) for file in files]
    if isinstance(files, dict):
        return files | {"path": placed(files["path"], folder)}
    return str(folder / files)
