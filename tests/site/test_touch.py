"""Figures to touch in a real browser: what they compute is what the library computes, they answer
mouse, keys and finger, and where no script runs the still remains.
"""

import io
import re

import numpy as np
import pytest
import torch
from PIL import Image
from touching import END, WORDS, Table, one_of_each

from attnbook import ScaledDotScore, address, attend
from attnbook.decoding import beam_search
from attnbook.mechanisms.memory.addressing import read as read_memory
from attnbook.mechanisms.positions import RotaryPositions, sinusoids
from attnbook.mechanisms.recurrent import linear_attention
from attnbook.tasks.geometry import tours

pytestmark = [pytest.mark.site, pytest.mark.slow]
KINDS = [
    "softmax", "mask", "positions", "alignment", "addressing", "beam", "tour", "rotary", "delta",
    "machine", "heads",
]  # fmt: skip
PAGE = "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>{}"


@pytest.fixture(scope="module")
def all_figures():
    made = one_of_each()
    assert list(made) == KINDS
    return PAGE.format("".join(figure.html() for figure in made.values()))


@pytest.fixture
def page(context, all_figures):
    """The same page, as nobody has touched it."""
    page = context.new_page()
    page.set_content(all_figures)
    yield page
    page.close()


@pytest.fixture(scope="module")
def shown(context, all_figures):
    """A page with one figure of each kind, and the errors that it throws."""
    page = context.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda said: page.errors.append(said.text))
    page.set_content(all_figures)
    yield page
    assert not page.errors
    page.close()


@pytest.fixture
def compute(shown):
    """What the browser computes for a kind and an input."""

    def run(kind, **given):
        given = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in given.items()}
        code = "([kind, given]) => document.querySelector(kind).compute(given)"
        return shown.evaluate(code, [f"[data-attnbook-figure={kind}]", given])

    return run


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_close(found, wanted):
    found, wanted = (torch.as_tensor(v, dtype=torch.float64) for v in (found, wanted))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_softmax_of_products(compute, seed):
    query, keys = drawn(1, 64, seed=seed), drawn(9, 64, seed=seed + 10)
    found = compute("softmax", products=(keys @ query[0]), width=64, root=True, temperature=0.7)
    weights = attend(ScaledDotScore(), query / 0.7, keys, need_weights=True).weights[0]
    assert_close(found["weights"], weights)
    scores = torch.tensor(found["scores"], dtype=torch.float64)
    slope = torch.autograd.functional.jacobian(lambda s: s.softmax(0), scores)
    assert_close(found["slope"], slope.norm())
    plain = compute("softmax", products=(keys @ query[0]), width=64, root=False, temperature=1)
    assert_close(plain["weights"], (keys @ query[0]).softmax(0))


@pytest.mark.parametrize("seed", range(3))
def test_masks(compute, seed):
    mask = drawn(6, 6, seed=seed) > 0.3
    mask[2] = False  # nothing to look at: no weights
    query, keys = drawn(6, 4, seed=seed), drawn(6, 4, seed=seed + 10)
    found = compute("mask", mask=mask, layers=3, scores=query @ keys.T / 2)
    wanted = attend(ScaledDotScore(), query, keys, mask=mask, need_weights=True).weights
    assert_close(found["weights"], wanted)
    step = np.linalg.matrix_power(mask.numpy().astype(int) + np.eye(6, dtype=int), 3)
    assert (np.array(found["reach"]) == (step > 0)).all()


@pytest.mark.parametrize("first, second, width", [(0, 0, 2), (3, 40, 32), (57, 12, 64)])
def test_positions(compute, first, second, width):
    table = sinusoids(64, width, dtype=torch.float64)
    found = compute("positions", first=first, second=second, width=width)
    assert_close(found["a"], table[first])
    assert_close(found["b"], table[second])
    assert_close(found["product"], table[first] @ table[second])


def test_alignment(compute):
    weights = drawn(5, 4).softmax(-1)
    for t in range(5):
        found = compute("alignment", weights=weights, t=t)
        assert_close(found["row"], weights[t])
        assert_close(found["covered"], weights.cumsum(0)[t])


@pytest.mark.parametrize("seed", range(3))
def test_addressing(compute, seed):
    memory, key = drawn(6, 3, seed=seed), drawn(3, seed=seed + 10)
    memory[2] = 0.0
    previous, kernel = drawn(6, seed=seed).softmax(0), drawn(3, seed=seed + 1).softmax(0)
    found = compute(
        "addressing", memory=memory, previous=previous, key=key, strength=3.5, gate=0.4,
        kernel=kernel, gamma=2.5,
    )  # fmt: skip
    stages = address(
        memory, previous[None], key[None], kernel=kernel[None],
        **{name: torch.tensor([value], dtype=torch.float64)
           for name, value in (("strength", 3.5), ("gate", 0.4), ("gamma", 2.5))},
    )  # fmt: skip
    for mine, theirs in zip(found, stages, strict=True):
        assert_close(mine, theirs[0])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_beam_search(compute, shown, size):
    last = compute("beam", size=size, steps=6)[-1][:size]
    nodes = shown.evaluate("() => document.querySelector('[data-attnbook-figure=beam]').nodes")
    found = []
    for node, log_p in last:
        words = []
        while node > 0:
            node, word, _ = nodes[node]
            words.insert(0, word)
        found.append(([w for w in words if w != END], log_p))
    source, length = torch.tensor([[4]]), torch.tensor([1])
    (theirs,) = beam_search(Table(), source, length, beam_size=size, max_length=6)
    assert [words for words, _ in found] == [WORDS.decode(h.tokens) for h in theirs]
    assert_close([log_p for _, log_p in found], [float(h.log_prob) for h in theirs])


def test_tours(compute):
    points = drawn(9, 2)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    wanted = tours.tour_length(tours.distances(points[None]), order[None])
    assert_close(compute("tour", points=points, tour=order), float(wanted))


@pytest.mark.parametrize("query_at, key_at, width", [(0, 0, 2), (3, 40, 4), (57, 12, 8)])
def test_rotary(compute, query_at, key_at, width):
    query, key = drawn(2, width, seed=width)
    turn = RotaryPositions(width)
    found = compute(
        "rotary", query=query, key=key, omega=turn.frequencies, query_at=query_at, key_at=key_at
    )
    q, k = turn(query[None], query_at)[0], turn(key[None], key_at)[0]
    assert_close(found["q"], q)
    assert_close(found["k"], k)
    assert_close(found["score"], q @ k)
    assert_close(sum(found["parts"]), q @ k)


@pytest.mark.parametrize("strength", [1.0, 0.3])
def test_delta_rule(compute, strength):
    keys, values = drawn(5, 3).softmax(-1), drawn(5, 4)
    pairs = [{"key": k.tolist(), "value": v.tolist()} for k, v in zip(keys, values)]
    found = compute("delta", pairs=pairs, written=4, strength=strength, key=keys[1])
    for name, beta in (("added", None), ("delta", torch.full((4,), strength).double())):
        theirs = linear_attention(keys[[1]].expand(4, 3), keys[:4], values[:4], strength=beta)
        assert_close(found[name], theirs.state)
        assert_close(found["reads"][name], theirs.context[-1])


def test_a_machine_reads_its_memory(compute):
    memory, weights = drawn(6, 3), drawn(2, 6).softmax(-1)
    assert_close(compute("machine", memory=memory, weights=weights), read_memory(memory, weights))


def test_heads(compute, page):
    """What is computed is what was given; another attention has other layers, heads and words."""
    root = page.locator("[data-attnbook-figure=heads]")
    names = ("attention", "layer", "head")
    select = {name: root.get_by_role("combobox", name=name) for name in names}
    words = root.get_by_role("combobox", name="query word")
    assert [select[name].locator("option").count() for name in ("layer", "head")] == [2, 3]
    select["layer"].select_option(index=1)
    select["head"].select_option(index=2)
    root.locator("svg [data-key=row-3]").click()
    assert words.input_value() == "3" and "layer 2, head 3, “down” attends" in said(page, "heads")
    select["attention"].select_option(index=1)
    assert words.locator("option").all_inner_texts() == ["1 so", "2 it", "3 ⟨/s⟩"]
    weights = compute("heads", part=1, layer=1, head=1, row=2)["weights"]
    assert abs(sum(weights) - 1) < 2.1e-3
    best = ["<b>the</b>", "cat", "sat", "down"][int(np.argmax(weights))]
    assert said(page, "heads").startswith(
        "In decoder, over the source, layer 2, head 2, “⟨/s⟩” attends most to "
        f"“{best}” ({max(weights):.3f}), then to"
    )
    shades = root.locator("svg [data-key=row-2] .weight").evaluate_all(
        "cells => cells.map(cell => +cell.getAttribute('fill-opacity'))"
    )
    assert shades == weights


def test_a_machine_plays_until_it_is_paused_or_done(page):
    """The button says what it will do next."""
    machine = page.locator("[data-attnbook-figure=machine]")
    starts = """begin => document.querySelector('[data-attnbook-figure=machine] .said')
        .textContent.startsWith(begin)"""
    assert said(page, "machine").startswith("Step 2: two comes")
    page.wait_for_timeout(900)
    assert said(page, "machine").startswith("Step 2"), "nothing moves by itself"
    machine.get_by_role("button", name="play").click()
    page.wait_for_function(starts, arg="Step 3")
    machine.get_by_role("button", name="pause").click()
    assert machine.get_by_role("button", name="play").count() == 1
    page.wait_for_timeout(900)
    assert said(page, "machine").startswith("Step 3: one is due")
    machine.get_by_role("button", name="play").click()
    page.wait_for_function(starts, arg="Step 4")
    assert machine.get_by_role("button", name="pause").count() == 0, "it has come to the end"


@pytest.mark.parametrize("kind, last", [("machine", 4), ("tour", 7)])
def test_a_step_has_one_number(page, kind, last):
    """The slider, what is read aloud of it, and the sentence count alike, from 1."""
    root = page.locator(f"[data-attnbook-figure={kind}]")
    slider, shown = root.locator("input[type=range]"), root.locator("output")
    slider.focus()
    page.keyboard.press("Home")
    for step in range(1, last + 1):
        assert shown.inner_text() == f"{step} of {last}"
        assert said(page, kind).startswith(f"Step {step}: ")
        page.keyboard.press("ArrowRight")


def test_numbers_are_printed_and_read_aloud_alike(shown):
    """With a minus and never a hyphen."""
    for kind in KINDS:
        root = shown.locator(f"[data-attnbook-figure={kind}]")
        for slider in root.locator("input[type=range]").all():
            slider.focus()
            shown.keyboard.press("Home")  # the least, which is negative where any is
            aloud = slider.get_attribute("aria-valuetext")
            assert aloud == slider.locator("xpath=following-sibling::output").inner_text()
        words = root.locator(".live svg text, .live output, .live .said").all_text_contents()
        assert not [text for text in words if re.search(r"(^|[\s(])-[\d.]", text)], kind


def test_a_frame_marks_the_word_to_guess_whatever_the_mask(page):
    """As the caption says, with a leak or without; what leaks is filled with orange."""
    root = page.locator("[data-attnbook-figure=mask]")
    cells = """cells => cells.map(c => [c.dataset.key, c.getAttribute('stroke') !== 'none',
                 c.getAttribute('fill')])"""
    for k, leaks in ((0, 0), (1, 6), (2, 3)):  # causal, all words, one word too far
        root.get_by_role("combobox", name="mask").select_option(index=k)
        found = root.locator("svg [data-key]").evaluate_all(cells)
        assert [key for key, framed, _ in found if framed] == ["0-1", "1-2", "2-3"]
        assert sum(fill == "#d9622b" for _, _, fill in found) == leaks


def said(page, kind):
    return page.locator(f"[data-attnbook-figure={kind}] .said").inner_text()


@pytest.mark.parametrize("kind", KINDS)
def test_every_control_changes_what_is_said_or_drawn(shown, kind):
    """By the keys alone; the picture is never empty."""
    root = shown.locator(f"[data-attnbook-figure={kind}]")
    controls = root.locator(".bar input, .bar select, .bar button")
    assert controls.count() >= 2
    for i in range(controls.count()):
        control, before = controls.nth(i), root.locator(".live").inner_html()
        control.focus()
        name = control.evaluate("e => e.type || e.tagName")
        for key in {"range": ["ArrowRight", "Home"], "select-one": ["ArrowDown"]}.get(name, [" "]):
            shown.keyboard.press(key)
            if root.locator(".live").inner_html() != before:
                break
        assert root.locator(".live").inner_html() != before, f"{kind}: {name} {i} does nothing"
        assert root.locator("svg").count() == 1 and len(said(shown, kind)) > 30


def test_a_mask_is_painted_by_mouse_and_by_keys(page):
    assert said(page, "mask").startswith("No leak")
    page.get_by_label("<b>the</b> may attend to cat").click()
    assert said(page, "mask").startswith("A leak: “<b>the</b>” attends to “cat”, which is the very")
    page.keyboard.press(" ")  # the cell is still the one that has the focus
    assert said(page, "mask").startswith("No leak")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert said(page, "mask").startswith("A leak: “cat” attends to “sat”")


@pytest.mark.parametrize("finger", [False, True])
def test_a_token_is_dragged_along_its_text(browser, all_figures, finger):
    """The one that is nearer, by the mouse or a finger, and not after that is lifted."""
    with browser.new_context(viewport={"width": 390, "height": 844}, has_touch=finger) as context:
        page = context.new_page()
        page.set_content(all_figures)
        line = page.locator("[data-attnbook-figure=rotary] .grip")
        line.scroll_into_view_if_needed()
        box = line.bounding_box()
        x, y = box["x"] + 14 + (box["width"] - 28) * 5 / 39, box["y"] + 20
        path = [(x + 10 * i, y) for i in range(9)]
        if finger:
            events = context.new_cdp_session(page)
            for i, (x, y) in enumerate(path):
                kind = "touchMove" if i else "touchStart"
                event = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
                events.send("Input.dispatchTouchEvent", event)
            events.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        else:
            page.mouse.move(*path[0])
            page.mouse.down()
            for at in path[1:]:
                page.mouse.move(*at)
            page.mouse.up()
            page.mouse.move(*path[0])
        assert said(page, "rotary").startswith("The query at 14 and the key at 2 are 12 apart")


def test_a_finger_on_a_phone(browser, all_figures):
    size = {"width": 390, "height": 844}
    with browser.new_context(viewport=size, has_touch=True, is_mobile=True) as phone:
        page = phone.new_page()
        page.set_content(all_figures)
        page.get_by_label("cat may attend to sat").tap()
        assert said(page, "mask").startswith("A leak")
        page.get_by_role("button", name="next word").tap()
        assert "“été”" in said(page, "alignment")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        sizes = page.evaluate(
            "[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)"
        )
        assert min(sizes) >= 9


@pytest.mark.parametrize("width", [1400, 390])
def test_controls_are_high_enough_for_a_finger(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    controls = page.locator(".bar input, .bar select, .bar button").all()
    assert len(controls) > 30
    assert min(control.bounding_box()["height"] for control in controls) >= 24


@pytest.mark.parametrize("ground, text", [("#121212", "#ced6dd"), ("#ffffff", "#323232")])
def test_the_shortest_tour_is_seen_on_dark_and_light_pages(page, ground, text):
    """The band under the tour stands out from the page by a contrast of 2.5 to 1."""
    page.add_style_tag(content=f"body {{ background: {ground}; color: {text} }}")
    plane = page.locator("[data-attnbook-figure=tour] svg")
    x, y = plane.locator("polyline").first.evaluate(
        """line => { // the middle of the last side, which no step has covered yet
             const [a, b] = [...line.points].slice(-2);
             return [(a.x + b.x) / 2, (a.y + b.y) / 2]; }"""
    )
    shot = Image.open(io.BytesIO(plane.screenshot())).convert("RGB")
    assert contrast(shot.getpixel((round(x), round(y))), shot.getpixel((3, 3))) >= 2.5


def contrast(*colours):
    """Of two colours, as WCAG defines it."""

    def luminance(colour):
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    dark, light = sorted(map(luminance, colours))
    return (light + 0.05) / (dark + 0.05)


def test_the_still_is_there_on_paper_and_without_scripts(browser, page, all_figures):
    stills = page.locator(".still img:visible")
    assert stills.count() == 0
    page.emulate_media(media="print")
    assert stills.count() == len(KINDS) and not page.locator(".live").first.is_visible()
    with browser.new_context(java_script_enabled=False) as plain:
        plain.new_page().set_content(all_figures)
        assert plain.pages[0].locator(".still img:visible").count() == len(KINDS)
