"""Makes a wheel of the Python client that also has the programs, which pip puts on PATH.

usage: build_wheel.py REPOSITORY PROGRAMS SCRATCH PLATFORM OUT
"""

import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("traind", "traind-runner")


def main():
    repository, programs, scratch, platform, out = sys.argv[1:]
    scratch = Path(scratch)
    pure = pure_wheel(Path(repository), scratch)
    run("wheel", "unpack", "--dest", scratch, pure)
    (unpacked,) = (path for path in scratch.glob("traind-*") if path.is_dir())
    add_programs(unpacked, Path(programs))
    set_tag(unpacked, f"py3-none-{platform}")
    run("wheel", "pack", "--dest-dir", out, unpacked)


def pure_wheel(repository, scratch):
    """Builds the client with the modules that are generated from the protos. The protos lie beside the client."""
    copy = scratch / "proto"
    caches = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(repository / "proto" / "python", copy / "python", ignore=caches)
    shutil.copytree(repository / "proto" / "traind", copy / "traind")
    run("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, copy / "python")
    (wheel,) = scratch.glob("*.whl")
    return wheel


def add_programs(unpacked, programs):
    scripts = unpacked / f"{unpacked.name}.data" / "scripts"
    scripts.mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copy(programs / name, scripts / name)


def set_tag(unpacked, tag):
    (metadata,) = unpacked.glob("*.dist-info/WHEEL")
    kept = [line for line in metadata.read_text().splitlines() if not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    lines = [line for line in kept if line] + ["Root-Is-Purelib: false", f"Tag: {tag}"]
    metadata.write_text("\n".join(lines) + "\n")


def run(module, *arguments):
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
