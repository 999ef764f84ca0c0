"""Prints the software bill of materials of the two programs, in CycloneDX's JSON format.

It lists the crates that are linked or run at build time on Linux, with the checksums of Cargo.lock.

usage: sbom.py REPOSITORY TARGET_TRIPLE
"""

import json
import re
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("traind", "traind-runner")


def main():
    repository, target = Path(sys.argv[1]), sys.argv[2]
    metadata = cargo_metadata(repository, target)
    packages = {package["id"]: package for package in metadata["packages"]}
    edges = dependencies(metadata)
    checksums = lock_checksums(repository)
    roots = [package["id"] for package in packages.values() if package["name"] in PROGRAMS]
    wanted = reachable(roots, edges)
    version = next(packages[root]["version"] for root in roots)
    refs = {name: reference(package) for name, package in packages.items()}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "traind", "version": version, "bom-ref": "traind"}},
        "components": [component(packages[name], checksums) for name in sorted(wanted, key=refs.get)],
        "dependencies": [
            {"ref": "traind", "dependsOn": sorted(refs[root] for root in roots)},
            *(
                {"ref": refs[name], "dependsOn": sorted(refs[edge] for edge in edges[name])}
                for name in sorted(wanted, key=refs.get)
            ),
        ],
    }
    json.dump(bom, sys.stdout, indent=1)
    print()


def cargo_metadata(repository, target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    run = subprocess.run(command, cwd=repository, stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)


def dependencies(metadata):
    """Maps a package's id to those it needs, less what only its tests need."""
    return {
        node["id"]: {
            dependency["pkg"]
            for dependency in node["deps"]
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        }
        for node in metadata["resolve"]["nodes"]
    }


def reachable(roots, edges):
    found, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(edges[name])
    return found


def lock_checksums(repository):
    entries = (repository / "Cargo.lock").read_text().split("[[package]]")[1:]
    packages = [dict(re.findall(r'^(\w+) = "(.*)"$', entry, re.MULTILINE)) for entry in entries]
    return {(package["name"], package["version"]): package.get("checksum") for package in packages}


def reference(package):
    """Identifies a package within the bill; Cargo's id of a workspace member would show the checkout's path."""
    return package["id"] if package["source"] else f"{package['name']}@{package['version']}"


def component(package, checksums):
    name, version = package["name"], package["version"]
    found = {"type": "library", "bom-ref": reference(package), "name": name, "version": version}
    if package["source"]:
        found["purl"] = f"pkg:cargo/{name}@{version}"
    if package["license"]:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((name, version))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


if __name__ == "__main__":
    main()
