"""The book on paper: what is printed, in order, with contents, numbers and bookmarks."""

import importlib.util

import pytest
from book import ROOT
from pypdf import PdfReader

pytestmark = [pytest.mark.site, pytest.mark.slow]

_spec = importlib.util.spec_from_file_location("make_pdf", ROOT / "tools/make_pdf.py")
assert _spec and _spec.loader
make_pdf = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_pdf)


def test_contents_bookmarks_and_numbers_agree(site, browser, tmp_path):
    out = tmp_path / "book.pdf"
    names = ["chapters/02_bahdanau/index", "chapters/02_bahdanau/summary"]
    count = make_pdf.make(site, names, out, browser, "https://example.org/book/")
    book = PdfReader(out)
    assert len(book.pages) == count
    text = [page.extract_text() for page in book.pages]
    assert [int(words.split()[-1]) for words in text] == list(range(1, count + 1))
    tops = [item for item in book.outline if not isinstance(item, list)]
    assert [item.title[:4] for item in tops] == ["Cont", "2. A", "2.5."]
    for item in tops[1:]:
        sheet = book.get_destination_page_number(item) + 1
        assert f"{item.title} {sheet}" in text[0].replace("\n", " ")
        assert item.title.split(". ")[-1][:20] in text[sheet - 1].replace("\n", " ")
    below = [item.title for item in book.outline[-1]]
    assert below == ["What was claimed, and what held", "Questions to test yourself"]
    links = {
        note.get_object()["/A"].get("/URI")
        for page in book.pages
        for note in page.get("/Annots", [])
        if "/A" in note.get_object()
    }
    assert any(str(link).startswith("https://example.org/book/chapters/") for link in links)
    assert not any("127.0.0.1" in str(link) for link in links)


def test_pages_stand_in_the_order_of_the_book():
    toc = {"root": "a", "parts": [{"chapters": [{"file": "b", "sections": [{"file": "c"}]}]}]}
    assert make_pdf.pages(toc) == ["a", "b", "c"]
