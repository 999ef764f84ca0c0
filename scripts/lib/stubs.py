"""Makes the Python gRPC modules from the repository's .proto files when they are imported."""

import importlib
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTO = Path(__file__).parents[2] / "proto"


def load(*names):
    """Returns two modules for each of the .proto files `names`: load("jobs") -> jobs_pb2, jobs_pb2_grpc."""
    folder = tempfile.TemporaryDirectory(prefix="traind-stubs.")
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("traind/v1/*.proto"))
    status = protoc.main(
        ["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={folder.name}", f"--grpc_python_out={folder.name}"]
        + files
    )
    if status != 0:
        raise RuntimeError(f"protoc failed on {PROTO}")
    sys.path.insert(0, folder.name)
    try:
        modules = [
            importlib.import_module(f"traind.v1.{name}_{suffix}") for name in names for suffix in ("pb2", "pb2_grpc")
        ]
    finally:
        sys.path.remove(folder.name)
        folder.cleanup()
    return modules
