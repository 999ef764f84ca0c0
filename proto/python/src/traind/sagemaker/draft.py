"""Values of the job file that are collected by field path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Draft(dict[str, Any]):
    """Values by field path, of which none is given twice with other values."""

    def set(self, path: str, value: Any, where: str) -> None:
        """Sets a field from an argument, `where` names it in messages."""
        if path in self and self[path] != value:
            raise ValueError(f"{where}: {path} is given twice: {self[path]!r} and {value!r}")
        self[path] = value

    def merge(self, keys: Mapping[str, Any]) -> None:
        """Sets fields that are named by their paths in messages."""
        for path, value in keys.items():
            if path in self and self[path] != value:
                raise ValueError(f"{path} is given twice: {self[path]!r} and {value!r}")
            self[path] = value
