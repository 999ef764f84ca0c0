"""Prints the provenance of released files, as an in-toto statement with SLSA's predicate: which files were made, of
which commit, with which tools and arguments. A signature of the checksums covers it.

usage: provenance.py REPOSITORY FOLDER STARTED [ARGUMENT...]
  FOLDER     the released files
  STARTED    when the release began, in seconds since 1970
  ARGUMENT   the arguments of scripts/release
"""

import datetime
import hashlib
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

OWN_FILES = ("provenance.json", "SHA256SUMS", "SHA256SUMS.sig", "SHA256SUMS.minisig")


def main():
    repository, folder, started = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [subject(path) for path in sorted(folder.iterdir()) if path.name not in OWN_FILES],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:traind:scripts/release",
                "externalParameters": {"arguments": sys.argv[4:]},
                "internalParameters": {"tools": tools(repository), "modified": is_modified(repository)},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": output(repository, "git", "rev-parse", "HEAD")}},
                    {"name": "Cargo.lock", "digest": {"sha256": sha256(repository / "Cargo.lock")}},
                ],
            },
            "runDetails": {
                "builder": {"id": f"urn:traind:{platform.machine()}-{platform.system().lower()}"},
                "metadata": {"startedOn": rfc3339(started), "finishedOn": rfc3339(time.time())},
            },
        },
    }
    json.dump(statement, sys.stdout, indent=1)
    print()


def subject(path):
    return {"name": path.name, "digest": {"sha256": sha256(path)}}


def sha256(path):
    with path.open("rb") as file:
        return digest(file)


def digest(file):
    found = hashlib.sha256()
    while part := file.read(1 << 20):
        found.update(part)
    return found.hexdigest()


def tools(repository):
    return {name: output(repository, name, "--version") for name in ("rustc", "cargo")}


def is_modified(repository):
    """Whether the checkout has changes that no commit has, so that nobody could repeat the release."""
    return bool(output(repository, "git", "status", "--porcelain", "--untracked-files=no"))


def output(repository, *command):
    return subprocess.run(command, cwd=repository, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def rfc3339(seconds):
    moment = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    return moment.isoformat().replace("+00:00", "Z")


if __name__ == "__main__":
    main()
