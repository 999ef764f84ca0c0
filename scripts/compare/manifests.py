"""Validates the objects that traind prints for Kubernetes with the schemas of all versions, see the script beside this."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml
from kubernetes_validate import utils

JOB = {
    "name": "wide",
    "model": {"name_or_path": "/data/model", "task": "sequence-classification", "num_labels": 2},
    "data": {"train": "/data/train.csv"},
    "resources": {"engine": "kubernetes", "hosts": 2, "cores": 4},
    "output_dir": "/data/out",
}
FULL = {
    "image": "registry.example/traind:1",
    "namespace": "train",
    "service_account": "trainer",
    "priority_class": "batch",
    "image_pull_secret": "pull",
    "volume_claim": "shared",
    "mount_path": "/data",
    "node_selector": {"topology.kubernetes.io/zone": "b"},
    "queue": "team",
    "labels": {"team": "a"},
    "annotations": {"example.com/owner": "A B"},
    "tolerations": [
        {"operator": "Exists"},
        {"key": "spot", "value": "b", "effect": "NoExecute", "toleration_seconds": 60},
    ],
    "limits": {"memory": "64Gi", "vpc.amazonaws.com/efa": 4},
}
HOSTILE = "x\"}, hostNetwork: true\n- $(HOSTNAME) '; : \u202e{{"


def job_files() -> dict[str, dict]:
    """Returns job files by their names: plain and full ones, and hostile values in every place that takes them."""
    plain = {**JOB, "kubernetes": {"image": "i"}}
    files = {"plain": plain, "full": {**JOB, "kubernetes": FULL}}
    for platform in ["cuda", "neuron"]:
        files[platform] = {**plain, "resources": {**JOB["resources"], "platform": platform}}
    limited = {**JOB["resources"], "max_run_seconds": 31_536_000, "priority": -7}
    files["limited"] = {**plain, "resources": limited}
    files["hostile name"] = {**plain, "name": HOSTILE.replace("\n", " ")}
    for key, value in FULL.items():
        files[f"hostile {key}"] = {**JOB, "kubernetes": {**FULL, key: hostile(value)}}
    return files


def hostile(value: object) -> object:
    """Returns a value of the same kind with hostile texts and numbers."""
    match value:
        case dict():
            return {key: hostile(inner) for key, inner in value.items()}
        case list():
            return [hostile(inner) for inner in value]
        case int():
            return 2**62
        case _:
            return HOSTILE


def printed(traind: str, job: dict, folder: Path) -> list[dict] | None:
    """Returns the objects of a job; None if it is refused."""
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    command = [traind, "submit", "--dry-run", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return list(yaml.safe_load_all(done.stdout))
    if "mistake" not in done.stderr or "panicked" in done.stderr:
        raise SystemExit(f"{job}: {done.stderr}")
    return None


def problems(objects: list[dict], version: str) -> list[str]:
    """Returns what the schemas of a version say against the objects; unknown fields are mistakes."""
    found = []
    for it in objects:
        try:
            kubernetes_validate.validate(it, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{it['kind']} of {version}: {error.message} at {list(error.path)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traind", required=True)
    options = parser.parse_args()
    versions = sorted(set(utils.all_versions()))
    count, refused, found = 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, job in job_files().items():
            objects = printed(options.traind, job, Path(folder))
            if objects is None:
                refused.append(name)
                continue
            kinds = [it["kind"] for it in objects]
            assert kinds == ["Job", "Service"], kinds
            count += 1
            found += [f"{name}: {it}" for version in versions for it in problems(objects, version)]
    print(f"{count} jobs with {len(versions)} versions; refused: {', '.join(refused)}")
    for it in found:
        print(it)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
