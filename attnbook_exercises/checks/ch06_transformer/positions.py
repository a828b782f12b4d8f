"""Checks of the section on positions: sinusoids of any places, the reach of relative positions, a
text that begins elsewhere, relative scores without a vector for each pair, distances in a tree.
"""

import numpy as np
import torch

from ...answers.flop_counter import largest
from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips


def _waves(places, d):
    k = np.arange(d // 2)
    angles = places[:, None] * 10_000.0 ** (-2 * k / d)
    return np.stack((np.sin(angles), np.cos(angles)), -1).reshape(len(places), d)


_WAVES = Slips(
    _waves,
    {
        "the sines stand in the first half of the columns, the cosines in the second: "
        "expected them in turn": "-1).reshape → 1).reshape",
        "sines and cosines have changed places: a sine "
        "stands in column 0": "np.sin(angles), np.cos(angles) → np.cos(angles), np.sin(angles)",
        "the frequencies are counted from k = 1: "
        "the fastest hand has ω_0 = 1": "-2 * k → -2 * (k + 1)",
        "the exponent is k/d: expected 2k/d, where k counts the pairs": "-2 * k → -k",
        "the exponent is 4k/d: the columns are counted twice; "
        "2k is the column already": "-2 * k → -4 * k",
        "all columns are sines: expected a cosine in each odd one": "np.cos → np.sin",
        "the places are rounded to whole numbers: "
        "they need not be whole": "places[:, None] → np.trunc(places)[:, None]",
        "the rows are those of places 0, 1, 2, …: "
        "expected those that were given": "places[:, None] → np.arange(len(places))[:, None]",
        "the base is 1000: expected 10000": "10_000.0 → 1000.0",
        "the exponent of column c is c/d for odd c too: a pair shares its frequency": (
            "return np.stack((np.sin(angles), np.cos(angles)), -1).reshape(len(places), d) → c = "
            "np.arange(d)\n    angles = places[:, None] * 1e4 ** (-c / d)\n    return np.where(c % "
            "2 == 0, np.sin(angles), np.cos(angles))"
        ),
    },
)


@exercise("06.sinusoid_rows", title="Sinusoids of any places", difficulty=2, minutes=6)
def sinusoid_rows(answer, ctx):
    for _ in range(2):
        n, pairs = ctx.sizes(n=(1, 9), pairs_of_columns=(1, 5))
        d, places = 2 * pairs, 30 * ctx.normal(n)
        if n > 1:
            places[:2] = torch.tensor([0.0, 1.0])
        got = ctx.call(answer, places, d)
        got = ctx.floats(got, "the rows", (n, d), mention="one row a place, d columns")
        p = array(places)
        right, wrong = _WAVES(p, d)
        # angles so large that float32 keeps two digits of them
        angles = (p[:, None] * 1e4 ** (2 * np.arange(pairs) / d))[..., None]
        divided = np.concatenate((np.sin(angles), np.cos(angles)), -1).reshape(n, d)
        if not ctx.same(got, right) and np.allclose(array(got), divided, atol=0.1):
            ctx.fail("the place is divided by ω: expected multiplied, ω = 10000^(−2k/d) is small")
        ctx.close(got, right, "the rows", wrong)
    ctx.without_loop(answer, 10 * ctx.normal(600).abs(), 4, over="places")


def _reached(furthest, back=5, steps=200, letters=6, n=20, d=16, batch=32):
    """The loss of a head with relative positions that has learned to look so many places back, on
    new texts. It is the same in every run of the check.
    """
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    half = d**-0.5
    weights = [normal(letters, d), normal(d), half * normal(d, d), half * normal(d, d)]
    weights += [normal(2 * furthest + 1, d) / 2, half * normal(d, letters)]
    weights = [weight.requires_grad_() for weight in weights]
    optimizer, place = torch.optim.Adam(weights, 0.03), torch.arange(n)
    row = (place - place[:, None]).clamp(-furthest, furthest) + furthest

    def loss(texts):
        tokens = torch.randint(letters, (texts, n), generator=generator)
        embedding, bias, w_k, w_v, table, out = weights
        x = embedding[tokens]
        by_distance = ((x + bias) @ table.T).gather(-1, row.expand(texts, n, n))
        scores = ((x + bias) @ (x @ w_k).mT + by_distance) * half
        logits = scores.softmax(-1) @ (x @ w_v) @ out
        return torch.nn.functional.cross_entropy(
            logits[:, back:].flatten(0, 1), tokens[:, :-back].flatten()
        )

    for _ in range(steps):
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()
    return loss(300).item()


@exercise("06.far_enough", title="Choose a setting: Five places back", difficulty=2, minutes=6)
def far_enough(answer, ctx):
    got = ctx.number(ctx.call(answer), "K")
    if got != int(got) or not 0 <= got <= 100:
        ctx.fail(f"K is {got:g}, expected a whole number from 0 to 100")
    if ctx.case:
        return "right."  # one training run is enough
    furthest = int(got)
    loss = _reached(furthest)
    ended = f"with K = {furthest} the loss ends at {loss:.2f} nats"
    if loss > 0.3:
        ctx.fail(
            f"{ended}: the distances from −{furthest} on share one vector, so that the head cannot "
            f"tell −5 from those beyond it"
        )
    if furthest > 6:
        ctx.fail(f"{ended}, but the table has {2 * furthest + 1} vectors: a smaller K does as well")
    return f"right: {ended}."


@exercise("06.moved_text", title="Predict: a text that begins elsewhere", difficulty=1, minutes=2)
def moved_text(answer, ctx):
    return ctx.predicted(answer, "as many", "clearly fewer", "one in ten")


def _relative(q, k, table):
    (n, d), clip = q.shape[1:], len(table) // 2
    distance = np.arange(n)[None] - np.arange(n)[:, None]
    index = np.clip(distance, -clip, clip) + clip
    products = q @ k.swapaxes(-1, -2)
    moved = np.einsum("bid,ijd->bij", q, table[index])
    return (products + moved) / np.sqrt(d)


_RELATIVE = Slips(
    _relative,
    {
        "the distance is i − j: "
        "expected j − i, key minus query": "np.clip(distance, → np.clip(-distance,",
        "the distance has lost its sign: "
        "before and after have vectors of their own": "np.clip(distance, → np.clip(abs(distance),",
        "the vectors meet the keys: "
        "expected the queries, q_i·(k_j + a)": '"bid,ijd->bij", q → "bjd,ijd->bij", k',
        "the scores are not divided by the root of d": "/ np.sqrt(d) →",
        "the scores are divided by d: expected its root": "np.sqrt(d) → d",
        "only the products with the keys are divided by the root of d: expected "
        "both": "(products + moved) / np.sqrt(d) → products / np.sqrt(d) + moved",
        "only the products with the vectors are divided by the root of d: expected "
        "both": "(products + moved) / np.sqrt(d) → products + moved / np.sqrt(d)",
        "the table is not used: these are plain scaled scores": "products + moved → products",
        "the products with the keys are missing: "
        "expected q_i·k_j beside q_i·a": "products + moved → moved",
        "distances beyond K wrap round to the other end of the table: expected the last vector on "
        "that side": "np.clip(distance, -clip, clip) + clip → (distance + clip) % len(table)",
        "the clipped distance is one row off: "
        "distance 0 is row K": "table[index] → table[np.minimum(index + 1, 2 * clip)]",
        "the clipped distance is a row too low: "
        "distance 0 is row K": "table[index] → table[np.maximum(index - 1, 0)]",
        "K is not added to the clipped distance: "
        "distance 0 is row K, and a negative index counts from the end": "clip) + clip → clip)",
        "the vectors meet the keys, and those at i: "
        "expected the queries, q_i·(k_j + a)": '>bij", q → >bij", k',
    },
)


@exercise(
    "06.relative_scores",
    title="Relative scores without a vector for each pair",
    difficulty=3,
    minutes=12,
)
def relative_scores(answer, ctx):
    above = True  # whether every size is above its least
    for most, furthest in ((10, 4), (5, 12)):
        batch, n, d, clip = ctx.sizes(batch=(1, 3), n=(1, most), d=(1, 6), K=(0, furthest))
        clip += 30 * (n > 99)
        above = above and min(batch, n, d, clip + 1) > 1
        q, k, table = (
            ctx.normal(batch, n, d),
            ctx.normal(batch, n, d),
            ctx.normal(2 * clip + 1, d),
        )
        got = ctx.floats(
            ctx.call(answer, q, k, table),
            "the scores",
            (batch, n, n),
            mention="one row a query, one column a key",
        )
        right, wrong = _RELATIVE(*(array(value) for value in (q, k, table)))
        ctx.close(got, right, "the scores", wrong)
        check_gradients(ctx, answer, (q, k, table), {0: "q", 1: "k", 2: "table"}, _relative)
    if not above or ctx.case:
        return  # one run with a long text is enough
    n, d, clip = 24, 32, 3
    watch = largest()

    def watched(q, k, table):
        with watch:
            return answer(q, k, table)

    ctx.call(watched, ctx.normal(1, n, d), ctx.normal(1, n, d), ctx.normal(2 * clip + 1, d))
    if watch.count >= 4 * n * n * d:
        ctx.fail(
            "the scores are right, but a tensor of n·n·d numbers is made: first the products of "
            "every query with the 2K + 1 vectors, "
            "then pick from them"
        )

    # The same from outside, where no answer can change the count: of this text n·n·d numbers are 4
    # GB, which a sandbox does not have.
    n, d = 2048, 256
    q, k, table = ctx.normal(1, n, d), ctx.normal(1, n, d), ctx.normal(2 * clip + 1, d)
    got = ctx.floats(ctx.call(answer, q, k, table), "the scores of a long text", (1, n, n))
    rows = ctx.integers(0, n, 8)
    index = np.clip(np.arange(n)[None] - array(rows)[:, None], -clip, clip) + clip
    q, k, table = array(q)[0, rows], array(k)[0], array(table)
    ctx.close(
        got[0, rows],
        (q @ k.T + np.take_along_axis(q @ table.T, index, -1)) / np.sqrt(d),
        "the scores of eight rows of a long text",
    )


def _tree(heads):
    """Distances by Floyd and Warshall, and of each word those above it."""
    n = len(heads)
    distance = np.full((n, n), 10**6)
    np.fill_diagonal(distance, 0)
    for child, head in enumerate(heads):
        if head >= 0 and head != child:
            distance[child, head] = distance[head, child] = 1
    for k in range(n):
        distance = np.minimum(distance, distance[:, k, None] + distance[None, k])
    return distance


def _without_itself(depth, above):
    """The formula with the word itself left out of its way up."""
    strict = above & ~np.eye(len(above), dtype=bool)
    return depth[:, None] + depth - 2 * (strict.astype(int) @ strict.T.astype(int))


@exercise("06.tree_distance", title="Distances in a tree", difficulty=3, minutes=10)
def tree_distance(answer, ctx):
    for whole in (False, True):
        n, chain = ctx.sizes(words=(1, 40 if whole else 14), words_below_one_another=(1, 5))
        chain = n if whole else chain
        order, heads = ctx.order(n), [-1] * n
        if n > 2:  # the last word is no child of the root: an edge between the two shows
            last = order.index(n - 1)
            order[2], order[last] = order[last], order[2]
        # the first word is the root, on it hang a chain and a second one of two, the rest anywhere
        for k in range(1, n):
            above = k - 1 if k < chain + 2 else ctx.integers(0, k)
            heads[order[k]] = order[0 if k == chain else above]
        root, distance = heads.index(-1), _tree(heads)
        got = ctx.call(answer, torch.tensor(heads))
        got = ctx.tensor(
            got, "the distances", (n, n), dtype=torch.long, mention="one row and one column a word"
        )
        depth, place = distance[root], np.arange(n)
        common = (depth[:, None] + depth - distance) // 2  # depth of the lowest common ancestor
        above = common == depth[None]  # j is i or above i
        wrong = {
            "these are differences of depths: words on different branches can have one "
            "depth": np.abs(depth[:, None] - depth),
            "these are sums of depths: the way need not lead over the root": depth[:, None] + depth,
            "the way leads over the root for all words that differ: it turns at the lowest "
            "common ancestor": (depth[:, None] + depth) * (1 - np.eye(n, dtype=int)),
            "these are distances in the sentence": np.abs(place[:, None] - place),
            "the depth of the common ancestor is taken off once: it is on both ways, so "
            "twice": depth[:, None] + depth - common,
            "each distance is one too large: words are counted, expected branches": distance + 1,
            "each distance but 0 is one too large: words are counted, expected branches": distance
            + 1
            - np.eye(n, dtype=int),
            "only ways straight up are counted, others are 0: expected all pairs": np.where(
                above, distance, 0
            ),
            "only ways straight up and down are counted, others are 0: expected all "
            "pairs": np.where(above | above.T, distance, 0),
            "the root's head -1 is taken for the last word: it says that there is none": _tree(
                [head % n for head in heads]
            ),
            "a word does not count as above itself: its way up begins with the "
            "word": _without_itself(depth, above),
            "only neighbours are joined: expected the length of the way for all pairs": np.minimum(
                distance, 1
            )
            * (distance <= 1),
        }
        ctx.recognize(got, distance, wrong)
        ctx.close(got, distance, "the distances")
