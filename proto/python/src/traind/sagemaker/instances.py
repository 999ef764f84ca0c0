"""SageMaker's instance types as platform and cores."""

from __future__ import annotations

import re
from typing import NamedTuple

from traind.errors import UnsupportedArgument
from traind.sagemaker.tables import INSTANCES


class Devices(NamedTuple):
    """Devices that a job asks for."""

    platform: str
    cores: int


_LOCAL = {"local": Devices("cpu", 1), "local_gpu": Devices("cuda", 1)}
_NAME = re.compile(r"ml\.([a-z0-9-]+)\.([a-z0-9]+)")


def devices_of(instance_type: str) -> Devices:
    """All cores of an instance; one CPU core for instances without accelerators."""
    if instance_type in _LOCAL:
        return _LOCAL[instance_type]
    match = _NAME.fullmatch(instance_type)
    if match is None:
        raise UnsupportedArgument(
            "instance_type", f"{instance_type!r} is not an instance type; give cores and platform"
        )
    family, size = match.groups()
    known = INSTANCES.get(family)
    if known is not None and size in known["cores"]:
        return Devices(known["platform"], known["cores"][size])
    if known is None and family[0] in "cmrt" and not family.startswith("trn"):
        return Devices("cpu", 1)
    raise UnsupportedArgument("instance_type", f"{instance_type} is not known here; give cores and platform")
