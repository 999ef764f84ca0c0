"""Values as SageMaker and command lines spell them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_ON = ("true", "yes", "on", "1", "t", "y")
_OFF = ("", "none", "None", "no", "false", "False")


def parsed(value: Any) -> Any:
    """A value that may be given as text, as SageMaker hands it to a script: "True", "3e-5"."""
    if not isinstance(value, str):
        return value
    if value in _WORDS:
        return _WORDS[value]
    if _NUMBER.fullmatch(value) is None:
        # "nan" and "inf" are names as likely as numbers.
        return value
    return int(value) if re.fullmatch(r"[+-]?\d+", value) else float(value)


def is_off(value: Any) -> bool:
    """Whether a value switches off what its key is about."""
    if isinstance(value, str):
        return value in _OFF
    return not value


def is_flag(value: Any) -> bool:
    """Whether a value is true or false, also as text or as a number."""
    if isinstance(value, str):
        return value in _OFF or value.lower() in _ON
    return value is None or isinstance(value, (bool, int, float)) and value in (0, 1)


def pairs(value: Any) -> Any:
    """The text `a=1,b=x` as a mapping."""
    if isinstance(value, Mapping):
        return value
    found = {}
    for pair in str(value).split(","):
        key, separator, text = pair.partition("=")
        if not separator:
            raise ValueError(f"{pair!r} is not KEY=VALUE")
        found[key.strip()] = parsed(text.strip())
    return found


def problem_type(value: Any) -> str:
    """The job file's name for `do_regression`."""
    return "single_label_classification" if is_off(value) else "regression"


#: Changes by their names in the tables.
CHANGES = {"pairs": pairs, "regression": problem_type}
