"""SageMaker's instance types as platform and cores."""

from __future__ import annotations

import re
from typing import NamedTuple

from traind.errors import UnsupportedArgument


class Devices(NamedTuple):
    """Devices that a job asks for."""

    platform: str
    cores: int


_ACCELERATED = {
    "trn1": ("neuron", {"2xlarge": 2, "32xlarge": 32}),
    "trn1n": ("neuron", {"32xlarge": 32}),
    # Logical cores, each of two physical ones, as Neuron's runtime has them by default.
    "trn2": ("neuron", {"3xlarge": 4, "48xlarge": 64}),
    "trn2u": ("neuron", {"48xlarge": 64}),
    "p2": ("cuda", {"xlarge": 1, "8xlarge": 8, "16xlarge": 16}),
    "p3": ("cuda", {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8}),
    "p3dn": ("cuda", {"24xlarge": 8}),
    "p4d": ("cuda", {"24xlarge": 8}),
    "p4de": ("cuda", {"24xlarge": 8}),
    "p5": ("cuda", {"4xlarge": 1, "48xlarge": 8}),
    "p5e": ("cuda", {"48xlarge": 8}),
    "p5en": ("cuda", {"48xlarge": 8}),
    "p6-b200": ("cuda", {"48xlarge": 8}),
    "p6-b300": ("cuda", {"48xlarge": 8}),
    "p6e-gb200": ("cuda", {"36xlarge": 4}),
    "g4dn": ("cuda", {"12xlarge": 4}),
    "g5": ("cuda", {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8}),
    "g6": ("cuda", {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8}),
    "g6e": ("cuda", {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8}),
}
#: Sizes of g4dn, g5, g6 and g6e with one GPU.
_SINGLE = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
_LOCAL = {"local": Devices("cpu", 1), "local_gpu": Devices("cuda", 1)}
_NAME = re.compile(r"ml\.([a-z0-9-]+)\.([a-z0-9]+)")


def devices_of(instance_type: str) -> Devices:
    """All cores of an instance; one CPU core for instances without accelerators."""
    if instance_type in _LOCAL:
        return _LOCAL[instance_type]
    match = _NAME.fullmatch(instance_type)
    if match is None:
        raise UnsupportedArgument("instance_type", f"{instance_type!r} is no instance type; give cores and platform")
    family, size = match.groups()
    if family in _ACCELERATED:
        platform, sizes = _ACCELERATED[family]
        count = sizes.get(size, 1 if family.startswith("g") and size in _SINGLE else 0)
        if count:
            return Devices(platform, count)
    elif family[0] in "cmrt" and not family.startswith("trn"):
        return Devices("cpu", 1)
    raise UnsupportedArgument("instance_type", f"{instance_type} is not known here; give cores and platform")
