"""A viewer of attention heads: every head of every layer in a notebook or on a page, with a
still where no script runs.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..canvas import as_array, plain
from ..style import CMAP
from .viewer_page import CARD, SCRIPT, STYLE

__all__ = ["HeadViewer", "head_viewer", "view_heads"]

START, END = "⟨s⟩", "⟨/s⟩"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class _Part(NamedTuple):
    name: str
    weights: np.ndarray  # (layers, h, m, n)
    rows: tuple[str, ...]
    columns: tuple[str, ...]


class HeadViewer:
    """What a notebook shows as a viewer of heads; made by :func:`head_viewer` and
    :func:`view_heads`.

    JupyterLab, Colab, nbconvert's HTML and the website show ``text/html``: controls for attention,
    layer, head and word, a map, and a table of numbers that follows the choice. Nothing is loaded
    from anywhere. Where scripts do not run, or are stripped with the style, a still of all heads
    and the table of the first choice remain; where HTML is not shown, the still alone
    (``image/png``). Equal input gives equal bytes.

    Weights are kept to three digits.
    """

    def __init__(self, parts: Sequence[_Part], start: tuple[int, int, int, int]) -> None:
        self._parts, self._start = tuple(parts), start

    @property
    def alt(self) -> str:
        """What the still shows, in words."""
        shown = "; ".join(
            f"{p.name}: {_many(p.weights.shape[0], 'layer')} of "
            f"{_many(p.weights.shape[1], 'head')}, {len(p.rows)} by "
            f"{len(p.columns)} words"
            for p in self._parts
        )
        return f"Attention weights of every head as small maps, darker is more weight. {shown}."

    @cached_property
    def still(self) -> bytes:
        """A map of each head, a row of maps a layer, as the bytes of a PNG file."""
        return _still(self._parts, 96)

    def html(self) -> str:
        """The viewer as one piece of HTML, to be put into any page."""
        data = {
            "parts": [
                {
                    "name": p.name,
                    "rows": p.rows,
                    "columns": p.columns,
                    "layers": p.weights.shape[0],
                    "heads": p.weights.shape[1],
                    "weights": _packed(p.weights),
                }
                for p in self._parts
            ],
            "start": self._start,
        }
        # Inside a script element nothing may look like markup, whatever the tokens are.
        text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        own = "attnbook-" + hashlib.sha256(text.encode()).hexdigest()[:12]
        image = base64.b64encode(self.still).decode()
        script = (
            SCRIPT.replace("@STYLE@", json.dumps(STYLE))
            .replace("@ID@", own)
            .replace("@DATA@", text)
        )
        return (
            f'<div id="{own}" data-attnbook-heads="{own}" role="group" '
            f'aria-label="Viewer of attention heads" style="{CARD}">\n'
            f'<div class="hv-still"><img alt="{html.escape(self.alt)}" '
            f'src="data:image/png;base64,{image}" style="max-width:100%"></div>\n'
            f'<div class="hv-numbers">{self._table()}</div>\n<script>{script}</script>\n</div>'
        )

    def _table(self) -> str:
        part, layer, head, row = self._start
        p = self._parts[part]
        weights = np.round(p.weights[layer, head, row], 3)
        lines = "".join(
            f"<tr{' class=' + chr(34) + 'hv-top' + chr(34) if c == weights.argmax() else ''}><th "
            f'scope="row">{html.escape(word)}</th>'
            f"<td>{weights[c]:.3f}</td></tr>"
            for c, word in enumerate(p.columns)
        )
        return (
            f"<table><caption>Weights of “{html.escape(p.rows[row])}”: {html.escape(p.name)}, "
            f"layer {layer + 1}, head {head + 1}</caption>"
            f'<thead><tr><th scope="col">word looked at</th><th '
            f'scope="col">weight</th></tr></thead><tbody>{lines}</tbody></table>'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {
            "text/html": self.html(),
            "image/png": base64.b64encode(self.still).decode(),
            "text/plain": self.alt,
        }


def head_viewer(
    weights,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    name: str = "self-attention",
    layer: int = 0,
    head: int = 0,
    row: int = 0,
) -> HeadViewer:
    """Show the weights of one sentence in a :class:`HeadViewer`.

    Args:
        weights: ``(layers, h, m, n)``, or ``(h, m, n)``, or ``(m, n)``, each between 0 and 1. More
            rows and columns than tokens (padding) are cut off.
        rows: the m tokens that look.
        columns: the n tokens that are looked at; the rows again when not given.
        name: what the attention is called.
        layer, head, row: what is shown first, counted from 0. (The viewer itself counts from 1.)

    Raises:
        ValueError: for weights of other shapes or outside 0 … 1, or fewer than the tokens ask for;
            for no tokens; for a layer, head or row that there is not.

    Source: the idea of figures 3 to 5 of Vaswani et al. 2017, and of the tools after it.
    """
    part = _part("weights", name, weights, rows, rows if columns is None else columns)
    return HeadViewer([part], _first([part], 0, layer, head, row))


def view_heads(
    weights,
    source: Sequence[str],
    target: Sequence[str] | None = None,
    *,
    index: int = 0,
    part: str | None = None,
    layer: int = 0,
    head: int = 0,
    row: int = 0,
) -> HeadViewer:
    """Show the weights that a model returns, one sentence of its batch.

    Args:
        weights: what came with ``need_weights=True``: one tensor ``(batch, h, m, n)``; or a
            sequence of them, one a layer; or several such sequences by name, as the fields of
            :class:`~attnbook.models.transformer.encoder_decoder.HeadWeights` (encoder, decoder,
            cross) or a dict.
        source: the tokens of the source. With one tensor or sequence and no target, these look and
            are looked at.
        target: the tokens of the target, without begin and end. A row of the decoder is named for
            the token that it writes; what it looks at, of its own sentence, for the token that was
            read.
        index: which sentence of the batch.
        part: which attention is shown first, by name; the first one when not given.
        layer, head, row: as in :func:`head_viewer`.

    Raises:
        ValueError: as :func:`head_viewer`; for names other than encoder, decoder and cross; for
            decoder or cross without a target.
    """
    named = weights._asdict() if hasattr(weights, "_asdict") else weights
    if not isinstance(named, Mapping):
        named = {"encoder" if target is None else "cross": named}
    titles = {
        "encoder": "encoder",
        "decoder": "decoder, over the target",
        "cross": "decoder, over the source",
    }
    if not named or set(named) - set(titles):
        raise ValueError(
            f"weights must be named {', '.join(titles)}, got {', '.join(map(str, named)) or 'none'}"
        )
    if target is None and set(named) - {"encoder"}:
        raise ValueError(
            f"target must be given for weights named "
            f"{', '.join(sorted(set(named) - {'encoder'}))}, got None"
        )
    written, read = [*(target or ()), END], [START, *(target or ())]
    tokens = {"encoder": (source, source), "decoder": (written, read), "cross": (written, source)}
    parts = [
        _part(f"weights of {key}", titles[key], _of_sentence(key, value, index), *tokens[key])
        for key, value in named.items()
    ]
    if part is not None and part not in named:
        raise ValueError(f"part must be one of {', '.join(named)}, got {part!r}")
    return HeadViewer(
        parts, _first(parts, 0 if part is None else list(named).index(part), layer, head, row)
    )


def _of_sentence(key: str, value, index: int) -> np.ndarray:
    layers = [value] if hasattr(value, "shape") else list(value)
    if not layers or any(one is None for one in layers):
        raise ValueError(
            f"weights of {key} must hold a tensor for each layer, got "
            f"{'none' if not layers else 'None'}: ask the model "
            "with need_weights=True"
        )
    arrays = [as_array(f"weights of {key}", one, 4) for one in layers]
    if len({array.shape for array in arrays}) != 1:
        raise ValueError(
            f"weights of {key} must have one shape in all layers, got "
            f"{[array.shape for array in arrays]}"
        )
    if not 0 <= index < len(arrays[0]):
        raise ValueError(f"index must lie in 0..{len(arrays[0]) - 1}, got {index!r}")
    return np.stack([array[index] for array in arrays])


def _part(argument: str, name: str, weights, rows: Sequence[str], columns: Sequence[str]) -> _Part:
    shape = np.shape(weights.detach().cpu() if hasattr(weights, "detach") else weights)
    if len(shape) not in (2, 3, 4):
        raise ValueError(
            f"{argument} must have the shape (layers, h, m, n), (h, m, n) or (m, n), got {shape}"
        )
    array = as_array(argument, weights, len(shape))
    array = array.reshape((1,) * (4 - len(shape)) + shape)
    for said, words in (("rows", rows), ("columns", columns)):
        if isinstance(words, str) or not len(words):
            raise ValueError(
                f"{said} must hold at least one token, got {words!r}; split a sentence first"
            )
    rows, columns = tuple(map(str, rows)), tuple(map(str, columns))
    if 0 in array.shape or array.shape[2] < len(rows) or array.shape[3] < len(columns):
        raise ValueError(
            f"{argument} must cover {len(rows)} rows and {len(columns)} columns, got shape {shape}"
        )
    array = array[:, :, : len(rows), : len(columns)]
    if array.min() < -1e-3 or array.max() > 1 + 1e-3:
        raise ValueError(
            f"{argument} must lie between 0 and 1, got {array.min():g} to {array.max():g}: are "
            f"these scores?"
        )
    return _Part(name, array.clip(0, 1), rows, columns)


def _first(
    parts: Sequence[_Part], part: int, layer: int, head: int, row: int
) -> tuple[int, int, int, int]:
    sizes = parts[part].weights.shape
    for name, value, size in (
        ("layer", layer, sizes[0]),
        ("head", head, sizes[1]),
        ("row", row, sizes[2]),
    ):
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, np.integer))
            or not 0 <= value < size
        ):
            raise ValueError(f"{name} must be an integer in 0..{size - 1}, got {value!r}")
    return part, int(layer), int(head), int(row)


def _packed(weights: np.ndarray) -> str:
    """Thousandths as two digits of base 36, one after the other."""
    return "".join(
        _DIGITS[v // 36] + _DIGITS[v % 36]
        for v in np.rint(1000 * weights).astype(int).ravel().tolist()
    )


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _still(parts: Sequence[_Part], dpi: int) -> bytes:
    from PIL import Image

    lines = [(p, layer) for p in parts for layer in range(p.weights.shape[0])]
    across = max(p.weights.shape[1] for p in parts)
    figure = Figure(
        figsize=(7.2, 0.3 + 1.75 * len(lines) * min(1.0, 4 / across)), dpi=dpi, layout="constrained"
    )
    axes = figure.subplots(len(lines), across, squeeze=False)
    for (p, layer), line in zip(lines, axes):
        for head, ax in enumerate(line):
            ax.axis("off")
            if head >= p.weights.shape[1]:
                continue
            ax.axis("on")
            ax.imshow(
                p.weights[layer, head],
                cmap=CMAP,
                vmin=0,
                vmax=1,
                aspect="auto",
                interpolation="nearest",
            )
            ax.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7, pad=2)
            ax.grid(False)
            ax.tick_params(
                length=0, labelsize=5 if max(len(p.rows), len(p.columns)) > 12 else 6, pad=1
            )
            ax.set_xticks([])
            ax.set_yticks([])
            if head == 0:
                if len(p.rows) <= 26:
                    ax.set_yticks(range(len(p.rows)), list(map(_math_free, p.rows)))
                ax.set_ylabel(_math_free(p.name, 26), fontsize=6.5)
            if (layer == p.weights.shape[0] - 1) and len(p.columns) <= 26:
                ax.set_xticks(range(len(p.columns)), list(map(_math_free, p.columns)), rotation=90)
    canvas, data = FigureCanvasAgg(figure), io.BytesIO()
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    # a third of the bytes
    picture.quantize(palette=_palette(Image), dither=Image.Dither.NONE).save(
        data, format="PNG", optimize=True
    )
    return data.getvalue()


def _palette(Image):
    """The colours of weights, and those of ink on the face of the book."""
    blues = (255 * colormaps[CMAP](np.linspace(0, 1, 200))[:, :3]).round().astype(int)
    face, ink = np.array([251, 251, 248]), np.array([20, 20, 20])
    greys = (face + (ink - face) * np.linspace(0, 1, 24)[:, None]).round().astype(int)
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.concatenate([blues, greys, greys[-1:].repeat(32, 0)]).ravel().tolist())
    return palette


def _math_free(text: str, most: int = 12) -> str:
    """A token as Matplotlib draws it: a dollar begins no formula, and a long one is cut."""
    return plain(text if len(text) <= most else text[: most - 1] + "…")
