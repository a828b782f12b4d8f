"""What a page of the website gets before it is written, and what all of them share.

The theme brings scripts that the book does not use (live code, an icon library), pictures without
sizes, and elements that a screen reader cannot name. This template bridge mends each page as it is
rendered; at the end the icon fonts keep the icons that occur.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from fontTools.subset import Subsetter
from fontTools.ttLib import TTFont
from PIL import Image, ImageChops
from sphinx.jinja2glue import BuiltinTemplateLoader
from sphinx.util.images import get_image_size

UNUSED = r"fontawesome\.js|sphinx-thebe|searchtools\.js|searchindex\.js"
UNUSED_LINES = r"THEBE_JS_URL|DOCUMENTATION_OPTIONS\.pagename"
"""Files and lines of the theme and its extensions that no page needs."""
POLICY = (
    "default-src 'none'; script-src 'self'{hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'self'; form-action 'self'"
)
"""Scripts come from the site itself, or are written on the page and known by their hash; styles
may stand at an element, which formulas and tables need; nothing comes from elsewhere."""


SHADES = re.compile(r"\b(dark|light|pale|bright|white|black|faint)", re.IGNORECASE)
"""Words of a caption that hold only while the ground of its figure is light."""


class Pages(BuiltinTemplateLoader):
    """Sphinx's own templates; what they give is mended on its way to the file."""

    def init(self, builder, theme=None, dirs=None):
        super().init(builder, theme, dirs)
        self.builder = builder

    def render(self, template, context):
        page = super().render(template, context)
        return mended(page, context, self.builder) if "pathto" in context else page


def mended(page: str, context: dict, builder) -> str:
    """The page as it is written."""

    def static(name):
        return context["pathto"](f"_static/{name}", 1)

    page = re.sub(
        rf'[ \t]*<(script|link)\b[^>]*(src|href)="[^"]*({UNUSED})[^>]*>(</\1>)?\n?', "", page
    )
    page = re.sub(rf"[ \t]*<script>[^<]*({UNUSED_LINES})[^<]*</script>\n?", "", page)
    page = _once(page, r"[ \t]*<script>var togglebuttonSelector[^<]*</script>\n?")
    page = re.sub(r'(<script) (?=src="[^"]*/_static/|src="_static/)', r"\1 defer ", page)
    page = re.sub(
        r'<(i|span) class="((?:fa|fas|fab|theme-switch)\b[^"]*)"',
        r'<\1 aria-hidden="true" class="\2"',
        page,
    )
    scripts = [static("book/book.js")]
    if 'class="katex"' in page:
        page = page.replace(
            "</title>",
            f'</title>\n<link rel="stylesheet" href="{static("katex/katex.min.css")}">',
            1,
        )
    if context["pagename"] == "search":
        scripts += [
            static(n) for n in ("minisearch/minisearch.js", "language_data.js", "book/search.js")
        ]
    if 'id="front-alignment"' in page:
        scripts.append(static("book/front.js"))
    added = "".join(f'<script defer src="{src}"></script>\n' for src in scripts)
    page = page.replace("</head>", f"{added}</head>", 1)
    page = _named(page)
    page = _pictures(page, builder)
    return _with_policy(page)


def _once(page: str, pattern: str) -> str:
    """Without the second and later matches."""
    first = re.search(pattern, page)
    return page if not first else page[: first.end()] + re.sub(pattern, "", page[first.end() :])


def _named(page: str) -> str:
    """What a screen reader announces: names of the folds, landmarks around everything."""
    page = re.sub(
        r'(<a class="[^"]*reference internal[^"]*" href="[^"]*">([^<]*)</a><details[^>]*>)<summary>'
        r'<span class="toctree-toggle" role="presentation">',
        r'\1<summary aria-label="Contents of \2"><span class="toctree-toggle">',
        page,
    )
    page = re.sub(
        r'(<button class="btn search-button-field[^>]*?) title="Search" aria-label="Search"',
        r"\1",
        page,
    )
    page = page.replace('<summary aria-label="Toggle hidden content">', "<summary>")
    page = page.replace(' role="doc-biblioentry"', "").replace(
        '<div role="list" class="citation-list">', "<div>"
    )
    page = page.replace("<h1></h1>", "")  # above the contents in print, where a page has no title
    page = page.replace(
        '<span class="search-button__kbd-shortcut">',
        '<span class="search-button__kbd-shortcut" aria-hidden="true">',
    )
    page = page.replace(
        '<div id="pst-primary-sidebar" ',
        '<div id="pst-primary-sidebar" role="navigation" aria-label="Book" ',
    )
    page = re.sub(r'onclick="window\.print\(\)"', 'data-does="print"', page)
    return re.sub(r'onclick="toggleFullScreen\(\)"', 'data-does="fullscreen"', page)


def _pictures(page: str, builder) -> str:
    """Width and height, so that the text does not jump; loaded when they come near, and large at
    a click. On a dark page a figure of lines turns dark as well."""
    files = {name: path for path, name in builder.images.items()}

    def sized(match):
        tag, source = match[0], match[1]
        name = source.rpartition("/")[2]
        path = builder.srcdir / files[name] if name in files else None
        size = _size(path) if path and path.is_file() else None
        if not path or not size or " width=" in tag:
            return tag
        caption = re.match(r"(?:(?!<img ).)*?</figcaption>", page[match.end() :], re.DOTALL)
        if path.suffix == ".png" and not SHADES.search(tag + (caption[0] if caption else "")):
            tag = tag.replace("<img ", '<img class="lines" ', 1) if _is_ground(path) else tag
        tag = tag.replace(
            "<img ",
            f'<img width="{size[0]}" height="{size[1]}" style="--width: {size[0]}px" '
            f'loading="lazy" decoding="async" ',
            1,
        )
        return f'<a class="zoom" href="{source}">{tag}</a>'

    def filed(match):
        """The still that a figure to touch brings inside its HTML, as a file like any other."""
        data = base64.b64decode(match[1])
        path = Path(builder.outdir) / "_images" / f"{hashlib.sha256(data).hexdigest()[:20]}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
        return (
            f'src="{builder.imgpath}/{path.name}" width="{width}" height="{height}" '
            f'loading="lazy" decoding="async" style="max-width:100%;height:auto"'
        )

    page = re.sub(
        r'src="data:image/png;base64,([A-Za-z0-9+/=]+)" style="max-width:100%"', filed, page
    )
    page = re.sub(r'<a class="[^"]*image-reference"[^>]*>\s*(<img [^>]*>)\s*</a>', r"\1", page)
    return re.sub(r'<img [^>]*src="((?:\.\./)*_images/[^"]*)"[^>]*>', sized, page)


def _size(path: Path) -> tuple[int, int] | None:
    """Width and height on the page: a figure of a notebook has two points in each direction."""
    size = get_image_size(str(path))
    if size is None or path.suffix != ".png":
        return size
    with Image.open(path) as picture:
        double = picture.info.get("dpi", (0, 0))[0] > 200
    return (size[0] // 2, size[1] // 2) if double else size


def _is_ground(path: Path) -> bool:
    """Whether most of a figure is the ground it was drawn on, as with curves and diagrams; maps and
    pictures are not."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").reduce(4)
    ground = Image.new("RGB", small.size, small.getpixel((0, 0)))
    unlike = ImageChops.difference(small, ground).convert("L").histogram()
    return sum(unlike[:4]) > 0.5 * small.width * small.height


def _with_policy(page: str) -> str:
    inline = re.findall(
        r"<script(?:\s+(?!src)[\w-]+(?:=\"[^\"]*\")?)*>(.+?)</script>", page, re.DOTALL
    )
    hashes = sorted(
        {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in inline}
    )
    policy = POLICY.format(hashes="".join(f" 'sha256-{h}'" for h in hashes))
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return re.sub(r'(<meta charset="utf-8" ?/?>)', rf"\1\n    {meta}", page, count=1)


def help_the_lost(app, pagename, templatename, context, doctree):
    """The page for an address that does not exist: what happened, and every way on."""
    if pagename != app.config.notfound_pagename:
        return
    to = context["pathto"]
    chapters = "".join(
        f'<li><a href="{to(name)}">{escape(app.env.titles[name].astext())}</a></li>'
        for name in app.env.toctree_includes[app.config.root_doc]
        if name.startswith("chapters/") and name.endswith("/index")
    )
    context["title"] = "Page not found"
    context["body"] = f"""<section id="page-not-found">
<h1>Page not found</h1>
<p>This book has no page at this address. The link may be mistyped, or the page may have moved.</p>
<form class="bd-search d-flex align-items-center" role="search" action="{to("search")}">
<i class="fa-solid fa-magnifying-glass"></i>
<input type="search" class="form-control" name="q" aria-label="Search the book">
<button type="submit" class="btn btn-outline-primary ms-2">Search</button>
</form>
<p>You can also start at the <a href="{to(app.config.root_doc)}">front page</a>, look up a term in
the <a href="{to("appendix/glossary")}">glossary</a>, or open a chapter:</p>
<ol start="0">{chapters}</ol>
</section>"""


def keep_used_icons(app, exception):
    """The icon fonts of the theme with only those icons that a page shows."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    sheet = static / "styles" / "pydata-sphinx-theme.css"
    css = sheet.read_text(encoding="utf-8")
    names = set()
    for page in Path(app.outdir).rglob("*.html"):
        names |= set(re.findall(r"\bfa-[a-z-]+", page.read_text(encoding="utf-8")))
    rules = re.compile(r"((?:\.fa-[\w-]+:before,?)+)\{content:\"\\([0-9a-f]+)\"\}")
    used = set()

    def kept(match):
        if set(re.findall(r"\.(fa-[\w-]+):", match[1])) & names:
            used.add(int(match[2], 16))
            return match[0]
        return ""

    css = rules.sub(kept, css)
    used |= {ord(c) for c in re.findall("[\ue000-\uf8ff]", css)}  # icons of boxes, as letters
    for font in (static / "vendor" / "fontawesome" / "webfonts").glob("*.ttf"):
        with TTFont(font, recalcTimestamp=False) as whole:
            subset = Subsetter()
            subset.populate(unicodes=used)
            subset.subset(whole)
            whole.flavor = "woff"
            whole.save(font.with_suffix(".woff"))
        both = rf"url\(([^)]*){font.stem}\.woff2\)[^,]*,url\([^)]*\.ttf\) format\(\"truetype\"\)"
        css = re.sub(both, rf'url(\1{font.stem}.woff) format("woff")', css)
    sheet.write_text(css, encoding="utf-8")


def addresses(app, config):
    """What extensions ask for again of the address of the website."""
    config.ogp_site_url = config.html_baseurl
    config.notfound_urls_prefix = urlsplit(config.html_baseurl).path


def setup(app):
    app.connect("config-inited", addresses, priority=1)
    app.connect("html-page-context", help_the_lost, priority=900)  # after its paths are absolute
    app.connect("build-finished", keep_used_icons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
