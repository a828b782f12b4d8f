"""Decoders in their published form: loading a folder, and writing one."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from ..models.transformer.language_model import TransformerLM
from ..models.transformer.parts import tie_weights
from ..validate import check_integer, describe, require
from .architectures import ARCHITECTURES, Architecture, text_part
from .config import Config, check_folder, read_json
from .configs import config_of, settings_of
from .state import body_of, from_published, to_published
from .tensors import INDEX, MAX_SHARD_SIZE, SINGLE, read_tensors, write_tensors
from .token_ids import read_token_ids, token_id_fields

__all__ = ["Published", "load_decoder", "save_decoder"]

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


class Published(NamedTuple):
    """What a model's folder said of it: ``model.published``."""

    config: dict[str, Any]
    generation_config: dict[str, Any] | None


def load_decoder(
    folder: str | os.PathLike,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
) -> TransformerLM:
    """The model in a folder as it is published, with ``config.json`` and safetensors files.

    It computes what the class of the same name in ``transformers`` computes, for Llama, Mistral,
    Qwen2, Qwen3, Phi-3, Gemma 2, Gemma 3 (its text part) and GPT-2. With a connection a small one
    is had by

    >>> from huggingface_hub import snapshot_download
    >>> name = "HuggingFaceTB/SmolLM2-135M"  # or Qwen/Qwen3-0.6B, openai-community/gpt2, …
    >>> folder = snapshot_download(name, allow_patterns=["*.json", "*.jinja", "*.safetensors"])
    >>> model, tokenizer = load_decoder(folder), load_tokenizer(folder)
    >>> prompt = tokenizer.encode("Attention is all you")
    >>> (text,) = generate(model, [prompt], max_new_tokens=20, temperature=0.7)
    >>> tokenizer.decode(text)

    Of the settings of generation the folder gives the special ids alone: temperature, filters and
    penalties are arguments of :func:`~attnbook.decoding.generation.generate`. Where a class of
    ``transformers`` reads a text again when it exceeds a length, this is what it computes step by
    step.

    Nothing in the folder is executed, and no memory is taken for what its files do not hold.

    Args:
        folder: the downloaded folder.
        device: where the model lands; PyTorch's default device, the CPU, when not given.
        dtype: of the model, float32, bfloat16, float16 or float64, whatever the files hold.

    Returns:
        The model in evaluation mode, without dropout. ``model.token_ids`` has the ids that begin,
        end and pad a text, ``model.published`` the fields of the folder's files. Every id is a
        token: padding is what lies after the lengths.

    Raises:
        ValueError: naming it, for an architecture, an activation, a scaling of positions or another
            option that this decoder lacks, a field that is missing or out of range, a tensor that
            is missing, superfluous or of another shape, a device that is not there, and what
            :func:`~attnbook.pretrained.tensors.read_tensors` refuses.
        FileNotFoundError: where a file is missing; for a name on the Hub it says how to download.
    """
    require(dtype in DTYPES, f"dtype must be one of {', '.join(map(str, DTYPES))}, got {dtype}")
    device = _usable(device)
    folder = check_folder(folder)
    fields = text_part(read_json(folder / "config.json"))
    generation = None
    if (folder / "generation_config.json").is_file():
        generation = read_json(folder / "generation_config.json")
    tensors = body_of(read_tensors(folder), fields)
    model, architecture, tied = _shapes_of(fields, most=max(1, len(tensors)))
    ids = read_token_ids(fields, generation, model.vocabulary_size)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    if tied:
        del shapes["output.weight"]
    state = from_published(architecture, tensors, shapes, folder)
    head = tensors.get("lm_head.weight") if tied else None
    if head is not None and not torch.equal(head, state["embedding.weight"]):
        require(  # the published classes take the stored one, too
            head.shape == state["embedding.weight"].shape and head.is_floating_point(),
            f"lm_head.weight in {folder} must be floating point numbers of shape "
            f"{tuple(state['embedding.weight'].shape)}, got {describe(head)}",
        )
        tied, state = False, {**state, "output.weight": head}
    state = {name: t.to(device, dtype, copy=True) for name, t in state.items()}
    model.load_state_dict(state, strict=False, assign=True)
    if tied:
        tie_weights(model.output, model.embedding)
    model.token_ids = ids
    cast(Any, model).published = Published(fields, generation)
    return model.eval()


def save_decoder(
    model: TransformerLM, folder: str | os.PathLike, *, max_shard_size: int = MAX_SHARD_SIZE
) -> Path:
    """Write a decoder in its published form: ``config.json``, ``generation_config.json`` with the
    token ids, and ``model.safetensors``, or several files with an index.

    :func:`load_decoder` reads it back, and so do ``transformers`` and what else knows the format.
    The model is one that :func:`load_decoder` returned, trained further or not, or one whose parts
    are those of :func:`~attnbook.decoder_parts` or :func:`~attnbook.gpt2_parts`: it is then a
    Llama, Mistral, Qwen2, Qwen3 or GPT-2. Dropout is not part of the form.

    A new folder appears when it is complete. In one that exists, which may hold a tokenizer, each
    file is replaced when all of them are complete.

    Args:
        model: the model; its numbers are stored in its dtype.
        folder: where it goes.
        max_shard_size: bytes of the largest file with tensors.

    Returns:
        The folder.

    Raises:
        ValueError: naming it, for a part that the published form has no field or name for.
        OSError: when it cannot be written; nothing unfinished remains.
    """
    require(
        isinstance(model, TransformerLM), f"model must be a TransformerLM, got {describe(model)}"
    )
    check_integer("max_shard_size", max_shard_size)
    published = getattr(model, "published", None) or Published(config_of(model), None)
    dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters()})
    require(
        len(dtypes) == 1 and all(p.dtype in DTYPES for p in model.parameters()),
        f"model must have one dtype, float32, bfloat16, float16 or float64, got {dtypes}",
    )
    tied = model.output.weight is model.embedding.weight
    ids = model.token_ids
    architecture = ARCHITECTURES[published.config["model_type"]]
    config = {k: v for k, v in published.config.items() if k != "torch_dtype"} | {
        "architectures": [architecture.name],
        "dtype": dtypes[0],
        "tie_word_embeddings": tied,
    }
    config |= {k: v for k, v in token_id_fields(ids).items() if k != "suppress_tokens"}
    _check_form(model, config)
    tensors = to_published(architecture, dict(model.named_parameters()))  # what is tied comes once
    generation = (published.generation_config or {}) | token_id_fields(ids)
    generation = {k: v for k, v in generation.items() if v is not None}
    folder = Path(folder)
    staged = folder.absolute().with_name(f".{folder.absolute().name}.{os.getpid()}.tmp")
    try:
        staged.mkdir(parents=True)
        files = write_tensors(tensors, staged, max_shard_size)
        for name, fields in (("generation_config.json", generation), ("config.json", config)):
            (staged / name).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
            files.append(name)
        _put(staged, folder, files)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return folder


def _usable(device: str | torch.device | None) -> torch.device:
    if device is None:
        return torch.get_default_device()
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"device must be one that this PyTorch can use, got {device!r}: "
            f"{str(error).splitlines()[0]}"
        ) from None


def _shapes_of(fields: dict[str, Any], most: int) -> tuple[TransformerLM, Architecture, bool]:
    """The model of some fields, without numbers, of at most so many blocks; whether it is tied."""
    config = Config(fields)
    architecture = ARCHITECTURES[config.choice("model_type", ARCHITECTURES)]
    config.only(quantization_config=None)
    num_layers = config.integer(architecture.num_layers, most=most)
    parts = architecture.parts(config, num_layers)
    with torch.device("meta"):  # shapes alone: no size in config.json has cost memory yet
        model = TransformerLM(config.integer("vocab_size"), parts, num_layers=num_layers, tie=False)
    return model, architecture, config.truth("tie_word_embeddings", architecture.tied)


def _check_form(model: TransformerLM, config: dict[str, Any]) -> None:
    """Raise ``ValueError`` unless the model that these fields describe is this one."""
    twin, _, _ = _shapes_of(config, most=max(1, len(model.stack.layers)))
    ours, theirs = settings_of(model), settings_of(twin)
    differ = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    require(
        not differ,
        f"model must be what the published form of {config['model_type']} can say, got "
        + "; ".join(
            f"{name} = {ours.get(name, 'missing')} where it has {theirs.get(name, 'none')}"
            for name in differ[:3]
        ),
    )


def _put(staged: Path, folder: Path, files: list[str]) -> None:
    """Bring complete files from one folder into another; a model that was there is gone then."""
    for name in files:
        with (staged / name).open("rb") as file:
            os.fsync(file.fileno())
    if not folder.exists():
        os.replace(staged, folder)
        return
    old = [folder / SINGLE, folder / INDEX, *folder.glob("model-*-of-*.safetensors")]
    for name in files:
        os.replace(staged / name, folder / name)
    for path in old:
        if path.name not in files:
            path.unlink(missing_ok=True)
