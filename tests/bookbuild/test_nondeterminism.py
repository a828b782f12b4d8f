"""Which cells the static analysis calls dependent on training, on a recorded run or on a clock."""

import pytest

from bookbuild.nondeterminism import Taint, has_assert

USES = [
    ["history = fit(model, data)"],
    ["history = fit(model, data)", "print(history.losses[-1])"],
    ["history = training.fit(model, data)", "print(model(x))"],
    ["fit(model=net, batches=b)", "y = net(x)", "print(y)"],
    ["judge = load_judge('digits')", "print(judge.logits(x))"],
    ["h = fit(m, d)", "best = min(h.losses)", "print(f'{best:.2f}')"],
    ["h = fit(m, d)", "for loss in h.losses:\n    print(loss)"],
    ["h = fit(m, d)", "total = 0\nfor loss in h.losses:\n    total += loss", "print(total)"],
    ["h = fit(m, d)", "xs = []\nfor l in h.losses:\n    xs.append(l)", "print(xs)"],
    ["h = fit(m, d)", "table = {}\ntable['a'] = h.losses", "print(table)"],
    ["h = fit(m, d)", "rows = [l * 2 for l in h.losses]", "print(rows)"],
    [
        "def train(seed):\n    return fit(make(seed), data)",
        "runs = [train(s) for s in range(3)]",
        "print(runs)",
    ],
    ["begin = time.perf_counter()", "print(begin)"],
    ["from time import perf_counter\nt = perf_counter()"],
    ["t = timeit.timeit(f, number=3)", "ratio = t / 2", "print(ratio)"],
    ["run = json.loads(resources.text('results/dates.json'))", "print(run['accuracy'])"],
    ["load_model_weights(model, path)", "print(greedy(model, s))"],
    ["h = fit(m, d)", "a, (b, *c) = 1, (2, h)", "print(c)"],
    ["h = fit(m, d)", "with torch.no_grad():\n    out = m(x)", "print(out)"],
    ["h = fit(m, d)", "if True:\n    z = m(x)\nelse:\n    z = 0", "print(z)"],
    ["h = fit_adversarial(g, d, b)", "print(h.generator_losses[-1])"],
    ["h = fit_adversarial(g, d, b)", "pictures = sample_pictures(g, 4)", "print(pictures)"],
    ["h = fit_adversarial(g, d, b)", "print(d(x))"],
    ["fit_adversarial(*pair, b)", "print(pair.generator(z))"],
    ["fit_adversarial(generator=g, discriminator=d, batches=b)", "print(d(x))"],
    ["while going:\n    print(later)\n    later = fit(m, d)"],
]
CLEAN = [
    ["x = torch.zeros(3)", "print(x)"],
    ["h = fit(m, d)", "x = torch.zeros(3)", "print(x)"],
    ["h = fit(m, d)", "m = Model()", "print(m)"],
    ["h = fit(m, d)", "def f(m):\n    return m + 1", "print(f(1))"],
    ["result = outfit(model)", "print(result)"],
    ["other.load_state_dict(m.state_dict())", "print(other(x))"],
    ["h = fit_adversarial(g, d, b)", "print(b)"],
    ["import time\nprint('time')"],
    ["time = 3\nprint(time)"],
    ["%pip install x\nprint(1)"],
]


@pytest.mark.parametrize("cells", USES + CLEAN, ids=lambda c: c[-1][:40])
def test_dependent_or_not(cells):
    taint = Taint()
    assert bool([taint.feed(c) for c in cells][-1]) == (cells in USES)


def test_the_names_that_carry_it_are_told():
    taint = Taint()
    assert taint.feed("h = fit(m, d)") and taint.feed("print(h, x)")
    assert taint.within("print(h, x)") == ["h"]


def test_asserts_are_found():
    assert has_assert("for x in y:\n    assert x") and not has_assert("print('assert x')")
