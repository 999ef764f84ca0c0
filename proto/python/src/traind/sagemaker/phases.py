"""The phases of the example scripts, which do nothing that they are not asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from traind.sagemaker import data
from traind.sagemaker.draft import Draft
from traind.sagemaker.values import is_off

_PHASES = ("do_train", "do_eval", "do_predict")


def read(given: Mapping[str, Any], script: str | None, draft: Draft) -> None:
    """Sets the phases of a script; where none is asked for, the job trains all the same."""
    if script is None:
        return
    is_on = {name: not is_off(given.get(name)) for name in _PHASES}
    if not any(is_on.values()):
        warnings.warn(f"do_train is true: {script} would neither train nor evaluate without it", stacklevel=4)
    elif not is_on["do_train"]:
        draft.setdefault("train.do_train", False)
    if not data.evaluates(given) and "data.validation" in draft:
        draft.setdefault("train.do_eval", False)
