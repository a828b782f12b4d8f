"""The rotation of a published model, by the fields of its config.json."""

from typing import Any

from ..mechanisms.positions.rotary import RotaryPositions
from ..mechanisms.positions.rotary_scaling import (
    DynamicNTK,
    Interpolation,
    Llama3,
    LongRoPE,
    RotaryScaling,
    YaRN,
)
from ..validate import require
from .config import Config

__all__ = ["SCALINGS", "read_rotary", "rotary_fields"]

SCALINGS: dict[str, type[RotaryScaling]] = {
    "default": RotaryScaling,
    "linear": Interpolation,
    "dynamic": DynamicNTK,
    "yarn": YaRN,
    "longrope": LongRoPE,
    "llama3": Llama3,
}
"""Scalings by their names in configuration files."""

_ELSEWHERE = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
_LENGTH = "original_max_position_embeddings"


def rotary_fields(config: Config) -> tuple[dict[str, Any], str]:
    """The object about the rotation, one since 2025, several fields before, and its name."""
    name = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    return config.part(name), name


def read_rotary(
    config: Config,
    d_head: int,
    fields: dict[str, Any],
    name: str,
    *,
    theta: float = 10_000.0,
    partial: bool = False,
    aliases: dict[str, str] | None = None,
) -> RotaryPositions:
    """The rotation that some fields describe.

    Args:
        fields, name: as :func:`rotary_fields` gives them, or a part of them.
        theta: the base where ``fields`` have none.
        partial: whether the architecture may turn a part of a head.
        aliases: older names of types.
    """
    rope = Config(
        {
            "rope_theta": theta,
            "partial_rotary_factor": config.get("partial_rotary_factor", 1.0),
            **{field: value for field, value in fields.items() if value is not None},
        },
        f"{name} of config.json",
    )
    if not partial:
        rope.only(partial_rotary_factor=1.0)
    aliases = aliases or {}
    kind = rope.choice("rope_type", [*SCALINGS, *aliases], rope.get("type", "default"))
    kind = aliases.get(kind, kind)
    options = {k: v for k, v in rope.fields.items() if k not in _ELSEWHERE}
    longest = config.get("max_position_embeddings")
    if kind == "dynamic":
        options[_LENGTH] = longest
    elif kind in ("yarn", "longrope", "llama3"):
        # a field of its own, as Phi-3 has it, counts more than one in the object
        options = {_LENGTH: longest, **options}
        options[_LENGTH] = config.get(_LENGTH, options[_LENGTH])
    if kind in ("yarn", "longrope") and "factor" not in options:
        length = Config(options, rope.name).integer(_LENGTH)
        options["factor"] = config.integer("max_position_embeddings", most=2**40) / length
    try:
        scaling = SCALINGS[kind](**options)
    except TypeError as error:
        raise ValueError(f"{name} in config.json must be that of {kind}, got {error}") from None
    part = rope.number("partial_rotary_factor")
    require(
        0 < part <= 1,
        f"partial_rotary_factor in {rope.name} must be above 0 and at most 1, got {part:g}",
    )
    return RotaryPositions(
        d_head,
        base=rope.number("rope_theta"),
        d_rotary=None if part == 1 else int(d_head * part),
        scaling=None if kind == "default" else scaling,
    )
