"""Labelled text from the package index of Debian and Ubuntu: each package's description and its section.

Where the machine's own index is empty (before the first `apt-get update`), one is fetched into a
folder of ours: that needs no root and leaves the machine as it was.

usage: package_index.py FOLDER    prints the APT_CONFIG to read an index with; nothing where the machine's own will do
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def rows(folder):
    """Pairs of description and section, each description once; empty where there is no index."""
    if not available():
        return []
    found = parse(dump({}))
    return found or parse(dump(fetch(Path(folder))))


def available():
    return all(shutil.which(program) for program in ("apt-cache", "apt-get"))


def parse(index):
    """Reads the stanzas of an index. Only the first line of a description is in it."""
    sections = {}
    for stanza in index.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.split("\n") if ": " in line and line[0] != " ")
        description = fields.get("Description") or fields.get("Description-en")
        if description and "Section" in fields:
            sections.setdefault(description.strip(), fields["Section"].split("/")[-1])
    return list(sections.items())


def dump(environment):
    run = subprocess.run(
        ["apt-cache", "dumpavail"],
        capture_output=True,
        text=True,
        errors="replace",
        env=os.environ | {"LC_ALL": "C"} | environment,
        check=False,
    )
    return run.stdout if run.returncode == 0 else ""


def fetch(folder, *options):
    """Fetches the index of the machine's package sources into `folder`; returns the environment to read it in.

    `options` are further settings of apt, `NAME=VALUE`, which the machine's own do not override.
    """
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Acquire::Languages": "none",
        "Acquire::http::Timeout": "30",
        "Acquire::https::Timeout": "30",
    }
    config = folder / "apt.conf"
    config.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    environment = {"APT_CONFIG": str(config)}
    print("fetching the package index", file=sys.stderr)
    subprocess.run(
        ["apt-get", *(f"--option={option}" for option in options), "update"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
        check=False,
    )
    return environment


def main():
    if not available() or dump({}).startswith("Package:"):
        return
    print(fetch(Path(sys.argv[1]))["APT_CONFIG"])


if __name__ == "__main__":
    main()
