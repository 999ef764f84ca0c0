"""Generates the modules `traind.v1` and `traind.rpc` from the .proto files.

    generate.py FOLDER

makes FOLDER/traind, the whole package, ready to be imported from FOLDER. `setup.py` calls `stubs` alone.
Needs grpcio-tools.
"""

import re
import shutil
import sys
import tempfile
from importlib.metadata import requires
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

HERE = Path(__file__).resolve().parent


def package(folder):
    """Copies the package's own modules into a folder and generates the others."""
    caches = shutil.ignore_patterns("__pycache__", "v1", "rpc")
    shutil.copytree(HERE / "src" / "traind", Path(folder) / "traind", dirs_exist_ok=True, ignore=caches)
    stubs(folder)


def stubs(folder):
    """Generates `traind/v1` and `traind/rpc` in a folder."""
    for root in (HERE / "proto", HERE.parent):
        compile_protos(root, Path(folder))
    for name in ("v1", "rpc"):
        (Path(folder) / "traind" / name / "__init__.py").write_text(f'"""Generated from traind/{name}/*.proto."""\n')


def requirements():
    """Returns what generated modules need at run time: grpcio as new as the generator, and protobuf."""
    wanted = requires("grpcio-tools") or []
    return [requirement for requirement in wanted if requirement.startswith("grpcio")] + [protobuf_requirement()]


def protobuf_requirement():
    """Returns the versions of protobuf that generated modules run with.

    They check it when they are imported: it must be as new as the version that they are generated for, and of the same
    major version or the next.
    """
    with tempfile.TemporaryDirectory() as folder:
        compile_protos(HERE / "proto", Path(folder))
        module = (Path(folder) / "traind" / "rpc" / "status_pb2.py").read_text()
    version = re.search(r"Protobuf Python Version: ((\d+)\.\S+)", module)
    return f"protobuf>={version[1]},<{int(version[2]) + 2}"


def compile_protos(root, folder):
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(path.relative_to(root).as_posix() for path in root.glob("traind/*/*.proto"))
    outputs = [f"--{kind}_out={folder}" for kind in ("python", "grpc_python", "pyi")]
    status = protoc.main(["protoc", f"-I{root}", f"-I{well_known}", *outputs, *files])
    if status != 0:
        raise SystemExit(f"protoc failed on {root}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: generate.py FOLDER")
    package(sys.argv[1])
