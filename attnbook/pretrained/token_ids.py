"""The special ids of a published model."""

from typing import Any

from ..decoding import TokenIds
from ..validate import check_integer, require

__all__ = ["read_token_ids", "token_id_fields"]


def read_token_ids(
    config: dict[str, Any], generation_config: dict[str, Any] | None, vocabulary_size: int
) -> TokenIds:
    """Begin, end, padding and forbidden ids by the fields of config.json, or by those of
    generation_config.json alone where there is one, as ``transformers`` does.

    Fields: ``bos_token_id``, ``eos_token_id``, one or a list, ``pad_token_id``, where −1 means
    none, ``suppress_tokens``, a list, and ``bad_words_ids`` of one id each.
    """
    name = "config.json" if generation_config is None else "generation_config.json"
    fields = config if generation_config is None else generation_config

    def one(field: str, value: Any) -> int:
        return check_integer(f"{field} in {name}", value, 0, vocabulary_size - 1)

    def several(field: str) -> tuple[int, ...]:
        value = fields.get(field)
        if value is None:
            return ()
        if not isinstance(value, list):
            return (one(field, value),)
        return tuple(dict.fromkeys(one(field, each) for each in value))

    begin, padding = fields.get("bos_token_id"), fields.get("pad_token_id")
    require(
        not isinstance(begin, list | dict), f"bos_token_id in {name} must be one id, got {begin!r}"
    )
    bad = fields.get("bad_words_ids") or []
    require(
        all(isinstance(words, list) and len(words) == 1 for words in bad)
        and not fields.get("begin_suppress_tokens"),
        f"{name} must forbid single ids, which is all that this decoder can, got bad_words_ids "
        f"{bad!r:.80} and begin_suppress_tokens {fields.get('begin_suppress_tokens')!r:.80}",
    )
    never = *several("suppress_tokens"), *(one("bad_words_ids", words[0]) for words in bad)
    return TokenIds(
        begin=None if begin is None else one("bos_token_id", begin),
        end=several("eos_token_id"),
        padding=None if padding is None or padding == -1 else one("pad_token_id", padding),
        forbidden=never,
    )


def token_id_fields(ids: TokenIds) -> dict[str, Any]:
    """What :func:`read_token_ids` reads, null where there is none."""
    end = None if not ids.end else ids.end[0] if len(ids.end) == 1 else list(ids.end)
    return {
        "bos_token_id": ids.begin,
        "eos_token_id": end,
        "pad_token_id": ids.padding,
        "suppress_tokens": list(ids.forbidden) or None,
    }
