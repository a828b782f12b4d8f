"""The JSON files of a published folder, whose fields are not believed but checked."""

from __future__ import annotations

import json
import os
import re
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..validate import check_choice, check_integer, check_number, require

__all__ = ["LONGEST_JSON", "Config", "check_folder", "read_json"]

LONGEST_JSON = 2**24
"""Bytes of the longest configuration or index that is read; an index takes some 100 a tensor."""


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file of at most :data:`LONGEST_JSON` bytes, or ``ValueError``."""
    with Path(path).open("rb") as file:
        text = file.read(LONGEST_JSON + 1)
    require(
        len(text) <= LONGEST_JSON, f"{path} must have at most {LONGEST_JSON:,} bytes, it has more"
    )

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        require(len(found) == len(pairs), "a name comes twice")
        return found

    def small(digits: str) -> int:
        number = int(digits)
        require(abs(number) < 2**127, f"a number has {len(digits)} digits")  # a float holds it
        return number

    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=once, parse_int=small)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON with each name once, it is not: {error}") from None
    require(isinstance(found, dict), f"{path} must be an object, got {reprlib.repr(found)}")
    return found


def check_folder(folder: str | os.PathLike) -> Path:
    """The folder, or ``FileNotFoundError`` with what to do where it is a name on the Hub."""
    path = Path(folder)
    if path.is_dir():
        return path
    message = f"folder must be a folder with config.json, got {os.fspath(folder)!r}, which is none"
    if re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", os.fspath(folder)):
        message += (
            f"; if it is a name on the Hub, download it: from huggingface_hub import "
            f"snapshot_download; folder = snapshot_download({os.fspath(folder)!r}, "
            f"allow_patterns=['*.json', '*.jinja', '*.safetensors'])"
        )
    raise FileNotFoundError(message)


class Config:
    """The fields of config.json, each checked when it is asked for.

    Args:
        fields: those of the file, or of an object in it.
        name: what an error calls it.
    """

    def __init__(self, fields: dict[str, Any], name: str = "config.json") -> None:
        self.fields, self.name = fields, name

    def get(self, field: str, default: Any = None) -> Any:
        """What a field holds; the default where it is missing or null."""
        value = self.fields.get(field)
        return default if value is None else value

    def integer(self, field: str, default: int | None = None, *, least=1, most=2**24) -> int:
        return check_integer(f"{field} in {self.name}", self.get(field, default), least, most)

    def number(self, field: str, default: float | None = None) -> float:
        value = self.get(field, default)
        return float(check_number(f"{field} in {self.name}", value, least=0))

    def number_or_none(self, field: str, default: float | None) -> float | None:
        """A number above 0; the default where the field is missing, None where it is null."""
        value = self.fields.get(field, default)
        if value is None:
            return None
        return float(check_number(f"{field} in {self.name}", value, above=0))

    def truth(self, field: str, default: bool) -> bool:
        return check_choice(f"{field} in {self.name}", self.get(field, default), (True, False))

    def choice(self, field: str, known: Iterable[str], default: str | None = None) -> str:
        value, known = self.get(field, default), list(known)
        require(
            isinstance(value, str) and value in known,
            f"{field} in {self.name} must be one of {', '.join(known)}, got {value!r}",
        )
        return value

    def part(self, field: str) -> dict[str, Any]:
        """The object that a field holds; an empty one where it is missing or null."""
        value = self.get(field, {})
        require(isinstance(value, dict), f"{field} in {self.name} must be an object, got {value!r}")
        return value

    def only(self, **values: Any) -> None:
        """Refuse a field that asks for another thing than the one that is there."""
        for field, value in values.items():
            came = self.get(field, value)
            require(
                came == value,
                f"{field} in {self.name} must be {value!r}, which is all that this decoder has, "
                f"got {came!r}",
            )
