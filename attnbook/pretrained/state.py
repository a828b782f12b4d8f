"""The tensors of a decoder by their published names and by ours."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..validate import describe, require
from .architectures import Architecture

__all__ = ["body_of", "from_published", "to_published"]

# Masks, and frequencies of the rotation, which older files hold though they are no weights.
_NO_WEIGHTS = re.compile(r"(^|\.)(attn\.bias|attn\.masked_bias|rotary_emb\.inv_freq)$")
# Of a model that sees, as it was published first and as transformers writes it now.
_SEEING = ("vision_tower.", "multi_modal_projector.")


def body_of(tensors: dict[str, Tensor], fields: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of the decoder, by the names that they have in a file of a decoder alone."""
    kind = fields.get("model_type")
    if kind == "gpt2":  # some files name the body alone
        return {
            name
            if name == "lm_head.weight"
            else f"transformer.{name.removeprefix('transformer.')}": t
            for name, t in tensors.items()
        }
    if kind != "gemma3_text" or not any("language_model." in name for name in tensors):
        return tensors
    found = {}
    for name, tensor in tensors.items():
        name = name.removeprefix("model.")
        if name.startswith(_SEEING):
            continue
        name = name.removeprefix("language_model.").removeprefix("model.")
        found[name if name == "lm_head.weight" else f"model.{name}"] = tensor
    return found


def _names(
    architecture: Architecture, ours: Mapping[str, Any]
) -> dict[str, tuple[list[str], bool]]:
    """For each tensor of theirs the parameters of ours that it holds, and whether as (in, out)."""
    found: dict[str, tuple[list[str], bool]] = {}
    for name in ours:
        block = re.fullmatch(r"stack\.layers\.(\d+)\.(.+)\.(\w+)", name)
        if block is None:
            theirs = architecture.names[name]
            if name != "output.weight":
                theirs = f"{architecture.body}.{theirs}"
        else:
            number, module, kind = block.groups()
            place = f"{architecture.body}.{architecture.blocks}.{number}"
            theirs = f"{place}.{architecture.names[module]}.{kind}"
        matrix = block is not None and len(ours[name].shape) == 2
        found.setdefault(theirs, ([], architecture.transposed and matrix))[0].append(name)
    return found


def from_published(
    architecture: Architecture,
    tensors: dict[str, Tensor],
    shapes: dict[str, torch.Size],
    folder: Path,
) -> dict[str, Tensor]:
    """The tensors by our names, each of the shape that the model wants."""
    named = _names(architecture, {k: torch.empty(v, device="meta") for k, v in shapes.items()})
    state = {}
    for theirs, (ours, transposed) in named.items():
        require(theirs in tensors, f"{folder} must hold the tensor {theirs}, it does not")
        tensor, rows = tensors[theirs], [shapes[name][0] for name in ours]
        wanted = (sum(rows), *shapes[ours[0]][1:])
        wanted = wanted[::-1] if transposed else wanted
        require(
            tuple(tensor.shape) == wanted and tensor.is_floating_point(),
            f"{theirs} in {folder} must be floating point numbers of shape {wanted}, as "
            f"config.json says, got {describe(tensor)}",
        )
        tensor = tensor.mT if transposed else tensor
        state |= dict(zip(ours, tensor.split(rows), strict=True))
    known = {*named, "lm_head.weight"}
    left = [name for name in tensors if name not in known and not _NO_WEIGHTS.search(name)]
    require(
        not left, f"{folder} must hold nothing that this decoder has no place for, got {left[:3]}"
    )
    return state


def to_published(architecture: Architecture, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by their names: the inverse of :func:`from_published`."""
    tensors = {}
    for theirs, (ours, transposed) in _names(architecture, state).items():
        parts = [state[name].detach() for name in ours]
        tensor = parts[0] if len(parts) == 1 else torch.cat(parts)
        tensors[theirs] = tensor.mT if transposed else tensor
    return tensors
