"""A cache in pages against arrays that lie in one piece: any order of extending, forking, cutting
and releasing, and a language model that decodes from it.
"""

import random
from collections import Counter

import numpy as np
import pytest
import torch
from assertions import refusals

from attnbook import (
    MultiHeadAttention,
    PagedCache,
    PagedSource,
    ProjectedSource,
    TransformerLM,
    causal_mask,
    paper_parts,
)

H, D, D_VALUE = 2, 3, 4


def rows(m, seed):
    generator = torch.Generator().manual_seed(seed)
    return ProjectedSource(
        *(torch.randn(1, H, m, d, generator=generator, dtype=torch.float64) for d in (D, D_VALUE))
    )


def run(seed, page_size, steps=60):
    """A random program on texts in pages and on plain arrays; the largest difference, and the
    cache with its texts."""
    chance = random.Random(seed)
    cache = PagedCache(40, page_size, H, D, d_head_value=D_VALUE, dtype=torch.float64)
    texts, plain = [cache.open()], [np.zeros((1, H, 0, D + D_VALUE))]
    worst = 0.0
    for step in range(steps):
        k = chance.randrange(len(texts))
        act = chance.choice(["extend"] * 4 + ["fork", "cut", "release"])
        if act == "extend":
            new = rows(chance.randint(0, 2 * page_size), 1000 * seed + step)
            more = np.concatenate([new.key.numpy(), new.value.numpy()], -1)
            try:
                texts[k].extend(new)
                plain[k] = np.concatenate([plain[k], more], 2)
            except RuntimeError:
                pass  # full: nothing may have changed
        elif act == "fork" and len(texts) < 6:
            texts.append(texts[k].fork())
            plain.append(plain[k])
        elif act == "cut":
            number = chance.randint(0, texts[k].length)
            texts[k].cut(number)
            plain[k] = plain[k][:, :, : plain[k].shape[2] - number]
        elif act == "release" and len(texts) > 1:
            texts.pop(k).release()
            plain.pop(k)
        for text, right in zip(texts, plain):
            assert text.length == right.shape[2]
            got = np.concatenate([text.key.numpy(), text.value.numpy()], -1)
            worst = max(worst, np.abs(got - right).max(initial=0.0))
    return worst, cache, texts


@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_pages_hold_what_arrays_in_one_piece_hold(page_size):
    for seed in range(6):
        worst, cache, texts = run(seed, page_size)
        assert worst == 0
        counted = Counter(page for text in texts for page in text.table)
        assert cache.readers == [counted[page] for page in range(40)]
        assert cache.pages_in_use == len(counted)
        assert all(len(text.table) == -(-text.length // page_size) for text in texts)
        for text in texts:
            text.release()
        assert cache.pages_in_use == 0 == cache.bytes_in_use


def fork_without_counting(patch):
    patch.setattr(PagedSource, "fork", lambda s: PagedSource(s.cache, list(s.table), s.length))


def fork_with_one_table(patch):
    whole = PagedSource.fork

    def fork(source):
        made = whole(source)
        made.table = source.table
        return made

    patch.setattr(PagedSource, "fork", fork)


def cut_that_frees_shared_pages(patch):
    def leave(cache, page):
        cache.readers[page] = 0
        cache._free.append(page)

    patch.setattr(PagedCache, "leave", leave)


@pytest.mark.parametrize(
    "mistake", [fork_without_counting, fork_with_one_table, cut_that_frees_shared_pages]
)
def test_known_mistakes_are_told_apart(mistake, monkeypatch):
    mistake(monkeypatch)
    worst = 0.0
    for seed in range(6):
        try:
            worst = max(worst, run(seed, 3)[0])
        except (IndexError, ValueError, RuntimeError, AssertionError):
            worst = 1.0
    assert worst > 0.1


def test_a_shared_beginning_is_kept_once_and_copied_where_one_goes_on():
    cache = PagedCache(8, 4, H, D, d_head_value=D_VALUE)
    first = cache.open().extend(rows(6, 0))  # a full page and half a page
    texts = [first, first.fork(), first.fork()]
    assert cache.pages_in_use == 2 and cache.readers[:2] == [3, 3]
    texts[1].extend(rows(1, 1))
    assert cache.pages_in_use == 3 and texts[1].table == [0, 2] and cache.readers[:3] == [3, 2, 1]
    texts[2].extend(rows(1, 2))
    texts[0].extend(rows(1, 3))  # the last reader of its page writes in place
    assert cache.pages_in_use == 4 and first.table == [0, 1]
    assert (
        cache.bytes_in_use == 4 * 4 * H * (D + D_VALUE) * 4
    )  # pages · positions · numbers · bytes
    with pytest.raises(RuntimeError, match="4 free pages of 8, and 5 are needed"):
        first.extend(rows(18, 4))
    assert first.length == 7
    full = PagedCache(1, 4, H, D, d_head_value=D_VALUE)
    shared = full.open().extend(rows(2, 0))
    with pytest.raises(RuntimeError, match="0 free pages of 1, and 1 are needed"):
        shared.fork().extend(rows(1, 1))  # there is room in its page, but not for a copy
    assert shared.length == 2 and full.readers == [2]


def test_a_layer_and_a_language_model_read_pages_as_they_read_one_piece():
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2).double()
    x = torch.randn(1, 11, 8, dtype=torch.float64)
    pages = PagedCache(9, 4, 2, 4, dtype=torch.float64).open()
    for chunk in x.split([5, 1, 3, 2], dim=1):
        pages.extend(layer.project(chunk))
    mask = causal_mask(3, 11)
    right = layer(x[:, -3:], projected=layer.project(x), mask=mask).context
    got = layer(x[:, -3:], projected=pages, mask=mask).context
    torch.testing.assert_close(got, right, atol=1e-10, rtol=0)

    model = TransformerLM(11, paper_parts(8, 2, 16, dropout=0.0), num_layers=2).double().eval()
    text = torch.arange(1, 14)[None] * 7 % 10 + 1
    caches = [PagedCache(9, 4, 2, 4, dtype=torch.float64) for _ in range(2)]
    state = model.begin(1)._replace(caches=tuple(cache.open() for cache in caches))
    read = model.read(text[:, :6], state)  # in a chunk
    other = read.state._replace(caches=tuple(cache.fork() for cache in read.state.caches))
    right = model(text).logits
    torch.testing.assert_close(read.logits, right[:, :6], atol=1e-10, rtol=0)
    for branch, tokens in ((read.state, text[:, 6:]), (other, text[:, 6:].flip(1))):
        right = model(torch.cat([text[:, :6], tokens], 1)).logits[:, 6:]
        for t in range(tokens.shape[1]):
            step = model.step(tokens[:, t], branch)
            branch = step.state
            torch.testing.assert_close(step.logits, right[:, t], atol=1e-10, rtol=0)
    assert [cache.pages_in_use for cache in caches] == [7, 7]  # 2 × 4 in pieces of their own


BATCH = ProjectedSource(torch.ones(2, H, 1, D), torch.ones(2, H, 1, D))


test_wrong_arguments_are_named = refusals(
    ("num_pages", lambda: PagedCache(0, 4, 2, 3)),
    ("page_size", lambda: PagedCache(2, 0, 2, 3)),
    ("more must have a value", lambda: PagedCache(2, 2, H, D).open().extend(rows(1, 0))),
    ("more must have a key", lambda: PagedCache(2, 2, H, D).open().extend(BATCH)),
    ("number", lambda: PagedCache(2, 2, 2, 3).open().cut(1)),
)
