"""What figures to touch share: HTML with its script, and a still for where none runs."""

import base64
import hashlib
import html
import io
import json
from importlib import resources
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

__all__ = ["InteractiveFigure"]


class InteractiveFigure:
    """A figure that answers the mouse, a finger and the keys, in a notebook and on a page.

    JupyterLab, Colab and the website show ``text/html``: the still, which a script replaces by
    controls and a picture that is drawn anew at each change. Nothing is loaded from anywhere and no
    global name is set. Where scripts do not run, and on paper, the still remains; where HTML is not
    shown either, the still alone (``image/png``). Equal input gives equal bytes.

    A function that makes one has an argument ``still``, what is shown where no script runs.

    A kind of figure is a file of JavaScript beside this one. It defines ``figure(data, control)``
    and returns ``draw(place)``, which fills the place and returns a sentence on what is to be seen,
    and ``compute(input)``, the calculation alone, which the tests compare with the library.
    """

    def __init__(self, kind: str, label: str, data: Any, still: Figure) -> None:
        if not isinstance(still, Figure):
            raise ValueError(f"still must be a Matplotlib figure, got {type(still).__name__}")
        self._kind, self._label, self._data = kind, label, rounded(data)
        drawn, file = io.BytesIO(), io.BytesIO()
        still.savefig(drawn, format="png", dpi=110)
        plt.close(still)  # or the notebook would show it a second time
        picture = Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        picture.save(file, format="png", optimize=True)  # a third of the bytes
        self._still = base64.b64encode(file.getvalue()).decode()

    def html(self) -> str:
        """The figure as one piece of HTML, to be put into any page."""
        text = json.dumps(self._data, separators=(",", ":"))
        # inside a script element nothing may look like markup, whatever the words are
        for sign in "<>&":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        own = "attnbook-" + hashlib.sha256(f"{self._kind}{text}".encode()).hexdigest()[:12]
        files = resources.files("attnbook.figures.interactive")
        core, drawn, style = (
            (files / name).read_text(encoding="utf-8")
            for name in ("core.js", f"{self._kind}.js", "page.css")
        )
        script = (
            f'(() => {{\n"use strict";\n{core}\n{drawn}\n'
            f"const style = {json.dumps(style.replace('@ID', f'#{own}'))};\n"
            f"const data = {text};\n"
            f'for (const root of document.querySelectorAll("#{own}")) {{\n'
            f"  if (!root.dataset.ready) root.append(Object.assign("
            f'document.createElement("style"), {{ textContent: style }}));\n'
            f"  start(root, (control) => figure(data, control));\n}}\n}})();"
        )
        return (
            f'<div id="{own}" data-attnbook-figure="{self._kind}" role="group" '
            f'aria-label="{html.escape(self._label)}">\n'
            '<div class="still"><img alt="A still picture of this figure, which its caption '
            'describes" '
            f'src="data:image/png;base64,{self._still}" style="max-width:100%"></div>\n'
            f"<script>{script}</script>\n</div>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "image/png": self._still, "text/plain": self._label}


def rounded(data: Any) -> Any:
    """Arrays and tensors as lists, numbers to eight significant digits, all the way down."""
    if isinstance(data, dict):
        return {str(key): rounded(value) for key, value in data.items()}
    if hasattr(data, "detach"):
        data = data.detach().cpu()
    if hasattr(data, "tolist"):
        data = np.asarray(data).tolist()
    if isinstance(data, (list, tuple)):
        return [rounded(value) for value in data]
    return float(f"{data:.8g}") if isinstance(data, float) else data
