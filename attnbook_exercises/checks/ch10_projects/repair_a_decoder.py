"""Checks of the project on a damaged decoder: bits by position, two equalities, marks in the
tensors, attention by distance, the repair, and texts written with fewer products.
"""

import math
from typing import Any

import numpy as np
import torch

from ...answers.arguments import PLAIN_TENSORS
from ...answers.flop_counter import Products
from ..context import HARD_SCORES, CheckContext, a, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips


def _bits(logits, targets, characters, edges):
    low = logits - logits.max(-1, keepdims=True)
    log_p = low - np.log(np.exp(low).sum(-1, keepdims=True))
    cost = -np.take_along_axis(log_p, targets[..., None], -1)[..., 0] / np.log(2)
    return np.stack(
        [cost[:, p:q].sum() / characters[:, p:q].sum() for p, q in zip(edges, edges[1:])]
    )


_BITS = Slips(
    _bits,
    {
        "the costs are in nats: divide by ln 2": "/ np.log(2) →",
        "these are bits per token: divide the sum of the costs by the characters, not by the "
        "tokens": "characters[:, p:q].sum() → cost[:, p:q].size",
        "each token's cost is divided by its own characters and the quotients are averaged: divide "
        "the sum of the costs by the sum of the characters": (
            "cost[:, p:q].sum() / characters[:, p:q].sum() → "
            "(cost[:, p:q] / characters[:, p:q]).mean()"
        ),
        "each text is divided by its own characters and the texts are averaged: divide the sum "
        "over all texts": (
            "cost[:, p:q].sum() / characters[:, p:q].sum() → "
            "(cost[:, p:q].sum(1) / characters[:, p:q].sum(1)).mean()"
        ),
        "the position of the second edge is counted in: a stretch ends before it": (
            "cost[:, p:q].sum() / characters[:, p:q].sum() → "
            "cost[:, p:q + 1].sum() / characters[:, p:q + 1].sum()"
        ),
        "each stretch begins at the first position: it begins at its own edge": (
            "cost[:, p:q].sum() / characters[:, p:q].sum() → "
            "cost[:, :q].sum() / characters[:, :q].sum()"
        ),
        "the sign is wrong: a cost is −log₂ p": "= -np.take → = np.take",
        "the cost of a stretch is divided by the characters of the whole text: take its own": (
            "/ characters[:, p:q].sum() → / characters.sum()"
        ),
    },
)


@exercise("10.bits_by_position", title="Measure by position", difficulty=2, minutes=25)
def bits_by_position(answer, ctx):
    cases = []
    for factor, shift in HARD_SCORES:
        # of one token alone nothing is to be guessed
        B, n, V = ctx.sizes(B=(1, 4), n=(1, 12), V=(2, 7))
        logits = factor * ctx.normal(B, n, V) + shift
        targets, characters = ctx.integers(0, V, B, n), ctx.integers(1, 6, B, n)
        cuts = sorted(ctx.order(n + 1)[: min(4, n + 1)])
        given = logits, targets, characters, cuts
        got = ctx.floats(
            ctx.call(answer, *given),
            "the bits",
            (len(cuts) - 1,),
            nan="an exponential overflowed, or the logarithm of 0 was taken",
            mention="one number for each stretch between two edges",
        )
        cases.append(("the bits", got, *_BITS(*map(array, given[:3]), cuts)))
    ctx.close_everywhere(cases)
    rest = array(targets), array(characters), cuts
    check_gradients(ctx, answer, given, {0: "logits"}, lambda now: _bits(now, *rest))


def _gaps(whole, reference, prefixes):
    """Largest differences: whole passes from the reference, and passes over prefixes from them."""
    far = [np.abs(now - there).max() for now, there in zip(whole, reference)]
    near = [np.abs(p - now[: len(p)]).max() for now, some in zip(whole, prefixes) for p in some]
    return np.array([max(far), max(near, default=0.0)])


_GAPS = Slips(
    _gaps,
    {
        "only the last position of a row is compared with the reference: compare all": (
            "np.abs(now - there) → np.abs(now - there)[-1]"
        ),
        "the difference from the reference is the mean: expected the largest": (
            "np.abs(now - there).max() → np.abs(now - there).mean()"
        ),
        "the difference from the reference has a sign: a logit that is too small counts, too": (
            "np.abs(now - there) → (now - there)"
        ),
        "only the first row is compared with the reference": "max(far) → far[0]",
        "only the last row is compared with the reference": "max(far) → far[-1]",
        "only the last position of a prefix is compared: compare all": (
            "np.abs(p - now[: len(p)]) → np.abs(p - now[: len(p)])[-1]"
        ),
        "a prefix is compared with the end of the whole row: it has its first positions": (
            "now[: len(p)] → now[-len(p) :]"
        ),
        "the difference of a prefix has a sign: expected its size": (
            "np.abs(p - now[: len(p)]) → (now[: len(p)] - p)"
        ),
        "prefixes of the first row alone are read": "for p in some → for p in prefixes[0] if some "
        "is prefixes[0]",
        "one prefix of each row is read, the first: read all of these lengths": "in some] → in "
        "some[:1]]",
        "prefixes are compared with the reference: compare them with the whole row as it is read": (
            "for now, some in zip(whole, prefixes) → for now, some in zip(reference, prefixes)"
        ),
        "the two differences are exchanged": "np.array([max(far), max(near, default=0.0)]) → "
        "np.array([max(near, default=0.0), max(far)])",
    },
)


class _Reader:
    """A causal model for tests, and what is wrong with it.

    It mixes the embeddings of the tokens so far. In a text longer than `limit`, it adds `off` to
    a logit at the position `place`.
    """

    def __init__(self, ctx, vocabulary):
        self.table = ctx.normal(vocabulary, vocabulary).double().numpy()
        self.limit, self.place, self.off, self.spoiled = math.inf, 0, 0.0, None

    def logits(self, tokens):
        rows = self.table[np.asarray(tokens)]
        logits = np.cumsum(rows, 0) / np.arange(1, len(rows) + 1)[:, None]
        if len(rows) > self.limit:
            logits[self.place, 0] += self.off
        if self.spoiled is not None and len(rows) > self.spoiled:
            logits[self.spoiled, 0] = np.nan
        return logits


@exercise("10.two_equalities", title="Two equalities", difficulty=2, minutes=25)
def two_equalities(answer, ctx):
    number = torch.float64 if ctx.case else torch.float32
    cases = []
    for case, off in enumerate((0.0, 0.25, -1.25, -0.75)):
        # a row of one token has no prefix to compare
        n, R, V = ctx.sizes(n=(2, 12), R=(1, 4), V=(1, 6))
        reader = _Reader(ctx, V)
        texts = [ctx.integers(0, V, n + row) for row in ctx.order(R)]
        clean = [reader.logits(tokens) for tokens in texts]
        lengths = sorted({1, *(1 + k for k in ctx.order(n - 1)[:3])})
        reference = [logits.copy() for logits in clean]
        at = ctx.integers(0, R), ctx.integers(0, n - 1), ctx.integers(0, V)
        reference[at[0]][at[1:]] += (0.75 if case else 0.5) * (1 if case % 2 else -1)
        between = {*range(lengths[-1])} - {m - 1 for m in lengths} or {0}
        reader.place, reader.off = sorted(between)[ctx.integers(0, len(between))], off
        if case == 3:  # at the end of the longest prefix, where the others do not reach
            reader.place = lengths[-1] - 1
        reader.limit = n + R - 2 if case == 2 else n - 1  # one row of all, or each
        given = [(t, torch.tensor(l, dtype=torch.float32)) for t, l in zip(texts, reference)]
        # lengths above those of the rows make no prefix, and the first case has no others
        lengths = [*lengths, n + R] if case else [n + R]
        lengths = [lengths[i] for i in ctx.order(len(lengths))]

        def read(tokens, reader=reader):
            return torch.tensor(reader.logits(tokens.tolist()), dtype=number)

        got = ctx.parts(
            ctx.call(answer, read, given, lengths), ("from the reference", "from the whole")
        )
        names = "the difference from the reference", "the difference of prefixes from the whole"
        got = np.array([ctx.number(part, name) for part, name in zip(got, names)])
        whole = [_as(reader.logits(tokens), number) for tokens in texts]
        prefixes = [
            [_as(reader.logits(t[:m]), number) for m in lengths if m < len(t)] for t in texts
        ]
        there = [array(logits) for _, logits in given]
        cases.append(("[from the reference, from the whole]", got, *_GAPS(whole, there, prefixes)))
    ctx.close_everywhere(cases)
    _lost(ctx, answer, number)


def _as(logits, number):
    return torch.tensor(logits, dtype=number).double().numpy()


def _lost(ctx, answer, number):
    """A logit that is not a number may not pass for an equal one."""
    reader = _Reader(ctx, 4)
    texts = [ctx.integers(0, 4, 6) for _ in range(2)]
    given = [(t, torch.tensor(reader.logits(t), dtype=torch.float32)) for t in texts]
    reader.spoiled = ctx.integers(1, 4)

    def read(tokens):
        return torch.tensor(reader.logits(tokens.tolist()), dtype=number)

    for lengths, name in (([5], "from the reference"), ([5], "from the whole")):
        got = ctx.parts(ctx.call(answer, read, given, lengths), ("far", "near"))
        value = got[name == "from the whole"]
        if type(value) in PLAIN_TENSORS and value.numel() == 1:
            value = value.item()
        if type(value) is not float or value != math.inf:
            shown = value if type(value) in (int, float) else a(value)
            ctx.fail(
                f"a logit of the model is NaN, and the difference {name} is {shown}, "
                f"expected inf: nothing may make a number of it, as max(0.0, nan) does, which "
                f"is 0.0"
            )


_BLOCK = "model.layers.{}."
_NORMS = "input_layernorm.weight", "post_attention_layernorm.weight"
_EMBEDDING, _OUTPUT = "model.embed_tokens.weight", "lm_head.weight"


def _folder(ctx, blocks, g, k, half, d, hidden, V):
    """config and tensors of a whole decoder with random numbers, k heads of queries for each of
    g heads of keys.
    """
    width, heads = 2 * half, g * k
    config = {
        "model_type": "llama",
        "hidden_size": d,
        "intermediate_size": hidden,
        "num_hidden_layers": blocks,
        "num_attention_heads": heads,
        "num_key_value_heads": g,
        "head_dim": width,
        "rms_norm_eps": 1e-5,
        "vocab_size": V,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
    }

    def matrix(rows, columns):
        return ctx.normal(rows, columns) / columns**0.5

    def gains():
        return 0.6 + 0.8 * torch.rand(d, generator=ctx.generator)

    tensors = {_EMBEDDING: ctx.normal(V, d)}
    for block in map(_BLOCK.format, range(blocks)):
        tensors |= {block + name: gains() for name in _NORMS}
        tensors |= {
            f"{block}self_attn.q_proj.weight": matrix(heads * width, d),
            f"{block}self_attn.k_proj.weight": matrix(g * width, d),
            f"{block}self_attn.v_proj.weight": matrix(g * width, d),
            f"{block}self_attn.o_proj.weight": matrix(d, heads * width),
            f"{block}mlp.gate_proj.weight": matrix(hidden, d),
            f"{block}mlp.up_proj.weight": matrix(hidden, d),
            f"{block}mlp.down_proj.weight": matrix(d, hidden),
        }
    tensors["model.norm.weight"] = gains()
    if d > 1:  # heads that are alike in a part are no copies
        for name in _keys(tensors):
            rows = tensors[name].view(g, width, d)
            rows[:, :, 0] = rows[:1, :, 0].clone()
    return config, tensors


def _shuffled(ctx, tensors):
    names = list(tensors)
    return {names[i]: tensors[names[i]] for i in ctx.order(len(names))}


def _norms(tensors):
    return [name for name in tensors if "norm" in name]


def _keys(tensors):
    return [name for name in tensors if name.endswith(("k_proj.weight", "v_proj.weight"))]


def _repeat(config, tensors, times, order):
    """Heads of keys and values several times, "turns" (0 1 0 1) or "groups" (0 0 1 1)."""
    heads, width = config["num_key_value_heads"], config["head_dim"]
    taken = torch.arange(heads).repeat(times)
    if order == "groups":
        taken = taken.sort().values
    for name in _keys(tensors):
        tensors[name] = tensors[name].unflatten(0, (heads, width))[taken].flatten(0, 1)
    config["num_key_value_heads"] = heads * times


def _some(ctx, names):
    """Some of the names, at least one, and not all where there are two."""
    count = ctx.integers(1, max(2, len(names)))
    return [names[i] for i in sorted(ctx.order(len(names))[:count])]


_MISSED = {
    "norm": "its gains lie about 0, those of a norm that is stored whole about 1",
    "keys": "its heads are repeated in turns",
    "output": "config.json ties it to the embedding, and it holds other numbers",
}
_NO_FAULT = {
    "norm": "its gains lie about 1; a mean below 1 or a gain below 0 is no sign",
    "keys": "its heads differ, or are all alike, or stand in groups as the queries do (0 0 1 1)",
    "output": "it equals the embedding, or config.json does not tie the two",
}


@exercise("10.examine_tensors", title="Marks in the tensors", difficulty=3, minutes=40)
def examine_tensors(answer, ctx):
    for case in ("damaged", "in groups", "one head", "nearly", "hardly"):
        # two heads at least, or there are no turns to take; of two queries each, or no groups
        blocks, g, k, half, d, V = ctx.sizes(
            blocks=(1, 3), g=(2, 4), k=(2, 3), half=(1, 4), d=(1, 8), V=(2, 9)
        )
        if case == "one head":
            g, k = 1, 4
        config, tensors = _folder(ctx, blocks, g, k, half, d, d, V)
        expected, times = set(), k
        if case in ("damaged", "in groups", "one head"):
            for name in _some(ctx, _norms(tensors)):
                tensors[name] = tensors[name] - 1
                expected.add(("norm", name))
        if case == "damaged":
            _repeat(config, tensors, times, "turns")
            expected |= {("keys", name) for name in _keys(tensors)}
            tensors[_OUTPUT] = tensors[_EMBEDDING] + 0.05 * ctx.normal(V, d)
            expected.add(("output", _OUTPUT))
        elif case == "in groups":
            _repeat(config, tensors, times, "groups")
            tensors[_OUTPUT] = tensors[_EMBEDDING].clone()
        elif case == "one head":
            _repeat(config, tensors, times, "turns")  # the same as in groups
            config["tie_word_embeddings"] = False
            tensors[_OUTPUT] = ctx.normal(V, d)
        else:
            _repeat(config, tensors, times, "turns")
            for name in _keys(tensors):  # copies that were trained on
                heads = tensors[name].view(g * times, -1)
                little = 0.01 if case == "nearly" else 1e-6
                heads[:, ctx.integers(0, heads.shape[1])] += little * ctx.normal(g * times)
        got = _findings(ctx, ctx.call(answer, config, _shuffled(ctx, tensors)))
        for kind, name in sorted(expected - got):
            ctx.fail(f"{(kind, name)} is missing: {_MISSED[kind]}")
        for kind, name in sorted(got - expected):
            ctx.fail(f"{(kind, name)!r:.90} is no fault: {_NO_FAULT[kind]}")


def _findings(ctx: CheckContext, value: Any):
    """A set of (kind, name) from an answer."""
    if type(value) not in (list, tuple, set):
        what = "None" if value is None else a(value)
        ctx.fail(f"{what} came back, expected a list of pairs (kind, name)")
    found = set()
    for pair in value:
        if type(pair) not in (list, tuple) or [type(part) for part in pair] != [str, str]:
            ctx.fail(f"{a(pair)} is in the list that is no pair (kind, name) of two strings")
        if pair[0] not in _MISSED:
            ctx.fail(f"the kind {pair[0]!r:.30} came back, expected one of {', '.join(_MISSED)}")
        found.add(tuple(pair))
    return found


def _by_distance(Q, K, base, layout):
    h, n, d = Q.shape
    angle = np.arange(n)[:, None] * base ** (-np.arange(0, d, 2) / d)
    if layout == "half":
        pairs = [(k, k + d // 2) for k in range(d // 2)]
    else:
        pairs = [(2 * k, 2 * k + 1) for k in range(d // 2)]
    first, second = np.array(pairs).T
    turned = []
    for x in (Q, K):
        one, two = x[..., first], x[..., second]
        new = np.empty_like(x)
        new[..., first] = one * np.cos(angle) - two * np.sin(angle)
        new[..., second] = one * np.sin(angle) + two * np.cos(angle)
        turned.append(new)
    q, keys = turned[0], np.repeat(turned[1], h // len(K), axis=0)
    scores = q @ keys.swapaxes(1, 2) / np.sqrt(d)
    weights = softmax(np.where(np.tri(n, dtype=bool), scores, -np.inf))
    rows = [np.trace(weights, -far, 1, 2) / (n - far) for far in range(n)]
    return np.stack(rows, 1)


_BY_DISTANCE = Slips(
    _by_distance,
    {
        "a distance is averaged over all n queries: only n − distance of them have a key so far "
        "back": "/ (n - far) → / n",
        "the weights at a distance are added up: expected their mean": "/ (n - far) →",
        "the scale is missing: divide the scores by √d": "/ np.sqrt(d) →",
        "the two layouts are exchanged": 'layout == "half" → layout != "half"',
        "the layout is always half": 'layout == "half" → True',
        "the layout is always interleaved": 'layout == "half" → False',
        "queries take the heads of keys in turns: neighbours share a head (0 0 1 1)": (
            "np.repeat(turned[1], h // len(K), axis=0) → np.tile(turned[1], (h // len(K), 1, 1))"
        ),
        "nothing is turned": "turned.append(new) → turned.append(x)",
        "the keys are not turned": "np.repeat(turned[1] → np.repeat(K",
        "queries and keys are turned against one another: both turn the same way": (
            "for x in (Q, K): → for x, angle in ((Q, angle), (K, -angle)):"
        ),
        "the keys after a query are not hidden": "np.where(np.tri(n, dtype=bool), scores, -np.inf) "
        "→ scores",
        "a query does not see its own position": (
            "softmax(np.where(np.tri(n, dtype=bool) → softmax(np.where(np.tri(n, k=-1, dtype=bool)"
        ),
        "the frequencies fall half as fast as they should: ω_k = base^(−2k/d)": (
            "-np.arange(0, d, 2) / d → -np.arange(d // 2) / d"
        ),
        "the weights are averaged by the position of the key, not by its distance": (
            "np.trace(weights, -far, 1, 2) → weights[:, :, far].sum(1)"
        ),
        "distances are counted from the far end": "for far in range(n)] → for far in "
        "range(n)][::-1]",
    },
)


@exercise("10.attention_by_distance", title="Attention by distance", difficulty=3, minutes=40)
def attention_by_distance(answer, ctx):
    cases = []
    kinds = ("half", 50.0, True), ("half", 10_000.0, False), ("interleaved", 20.0, False)
    for layout, base, hard in kinds:
        g, k, n, half = ctx.sizes(g=(1, 4), k=(1, 3), n=(1, 7), half=(1, 4))
        given = 2 * ctx.normal(g * k, n, 2 * half), ctx.normal(g, n, 2 * half), base, layout
        if hard:  # exponentials overflow, and some scores lie far below any finite mask
            given = 200 * given[0], 200 * given[1], base, layout
        got = ctx.floats(
            ctx.call(answer, *given),
            "the mean weights",
            (g * k, n),
            mention="one row for each head of queries, one column for each distance",
        )
        right, wrong = _BY_DISTANCE(*map(array, given[:2]), base, layout)
        cases.append((f"the mean weights ({layout}, base {base:g})", got, right, wrong))
    ctx.close_everywhere(cases)
    check_gradients(
        ctx, answer, given, {0: "Q", 1: "K"}, lambda q, k: _by_distance(q, k, base, layout)
    )


def _mended(config, tensors, findings):
    """The right result of `repair_folder`, tensors as arrays."""
    h, heads, width = (
        config[f] for f in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    config, made = dict(config), {name: array(tensor) for name, tensor in tensors.items()}
    for kind, what in findings:
        if kind == "norm":
            made[what] = made[what] + 1
        elif kind == "output":
            del made[what]
        elif kind == "layout":
            made[what] = _halves(made[what], width)
        elif kind == "base":
            config = {f: v for f, v in config.items() if f not in ("rope_theta", "rope_scaling")}
            config["rope_parameters"] = {"rope_type": "default", "rope_theta": what}
        elif kind == "length":
            config["max_position_embeddings"] = what
    for kind, name in findings:
        if kind == "keys":
            kept = _kept(array(tensors[name]).reshape(heads, -1))
            made[name] = made[name][: kept * width]
            config["num_key_value_heads"] = kept
    return config, made


def _kept(rows):
    """How many heads there are before the first comes again."""
    return next(
        g for g in range(1, len(rows) + 1) if (rows == np.resize(rows[:g], rows.shape)).all()
    )


def _halves(matrix, width):
    """Rows of neighbouring pairs in the order in which pairs lie half a head apart."""
    rows = matrix.reshape(-1, width // 2, 2, matrix.shape[-1])
    return rows.swapaxes(1, 2).reshape(matrix.shape)


def _pairs(matrix, width):
    """The inverse of `_halves`."""
    rows = matrix.reshape(-1, 2, width // 2, matrix.shape[-1])
    return rows.swapaxes(1, 2).reshape(matrix.shape)


@exercise("10.repair_folder", title="Repair the folder", difficulty=3, minutes=45)
def repair_folder(answer, ctx):
    for case in ("all", "all", "few"):
        # of one head of keys, turns and groups are the same; a pair of components is no order
        blocks, g, k, half, d, V = ctx.sizes(
            blocks=(1, 3), g=(1, 4), k=(1, 3), half=(1, 4), d=(1, 8), V=(1, 9)
        )
        config, tensors = _folder(ctx, blocks, g, k, half, d, d, V)
        findings = []
        for name in _some(ctx, _norms(tensors)):
            tensors[name] = tensors[name] - 1
            findings.append(("norm", name))
        if case == "all":
            _repeat(config, tensors, k, "turns")
            if k > 1:
                findings += [("keys", name) for name in _keys(tensors)]
            tensors[_OUTPUT] = ctx.normal(V, d)
            findings.append(("output", _OUTPUT))
            block = _BLOCK.format(ctx.integers(0, blocks)) + "self_attn."
            for name in (f"{block}q_proj.weight", f"{block}k_proj.weight"):
                tensors[name] = torch.tensor(_pairs(tensors[name].numpy(), 2 * half))
                findings.append(("layout", name))
            base = float(ctx.integers(2, 1000) * 1000)
            length = ctx.integers(64, 4096)
            findings += [("base", base), ("length", length)]
            config |= {
                "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
                "rope_theta": 10_000.0,
                "rope_scaling": {"type": "dynamic", "factor": 4.0},
                "max_position_embeddings": 32,
            }
            rope = ("rope_parameters", "rope_theta", "rope_scaling")
            for field in rope[: ctx.integers(0, 3)]:
                del config[field]
        findings = [findings[i] for i in ctx.order(len(findings))]
        tensors = _shuffled(ctx, tensors)
        got = ctx.call(answer, config, tensors, findings)
        new, made = ctx.parts(got, ("config", "tensors"))
        right, mended = _mended(config, tensors, findings)
        if type(new) is not dict or type(made) is not dict:
            ctx.fail(f"({a(new)}, {a(made)}) came back, expected two dicts, config and tensors")
        _same_names(ctx, made, mended)
        for name, expected in mended.items():
            kinds = {kind for kind, what in findings if what == name}
            mention = "each head once" if "keys" in kinds else None
            part = ctx.floats(made[name], name, expected.shape, mention=mention)
            wrong = _misread(array(tensors[name]), kinds, config)
            ctx.close(part, expected, name, {f"{name}: {words}": v for words, v in wrong})
        _same_fields(ctx, new, right)


def _same_names(ctx, made, mended):
    for name in mended:
        if name not in made:
            ctx.fail(f"the tensor {name} is gone: give back all but the one that has no business")
    for name in made:
        if name not in mended:
            ctx.fail(f"the tensor {name!r:.40} has no place in the folder")


def _same_fields(ctx, got, right):
    """Compare the fields of config.json."""
    for field in (*right, *got):
        there, wanted = got.get(field), right.get(field)
        if not _is_plain(there):
            ctx.fail(f"config: {field} is {a(there)}, expected {wanted!r}")
        if field in right and field in got and there == wanted:
            continue
        if field not in right and field in ("rope_theta", "rope_scaling"):
            ctx.fail(f"config: {field} is still there: a reader may believe it")
        if field not in right:
            ctx.fail(f"config: the field {field!r:.40} is new: nobody asked for it")
        said = f"{there!r:.80}" if field in got else "missing"
        ctx.fail(f"config: {field} is {said}, expected {wanted!r}")


def _is_plain(value):
    """Whether a field can be compared and shown."""
    if type(value) is dict:
        return all(map(_is_plain, (*value, *value.values())))
    return value is None or type(value) in (str, int, float, bool)


def _misread(stored, kinds, config):
    """(sentence, value) of known mistakes with a tensor that has these findings."""
    width, heads = config["head_dim"], config["num_key_value_heads"]
    found = []
    mended = _halves(stored, width) if "layout" in kinds else stored
    kept = _kept(stored.reshape(heads, -1)) if "keys" in kinds else 0
    if "norm" in kinds:
        found.append(("it is as it was: add 1 to the gains", stored))
        found.append(("1 is taken away: it has to be added", stored - 1))
    if "keys" in kinds:
        rows = mended.reshape(heads, width, -1)
        every = rows[:: heads // kept].reshape(kept * width, -1)
        found.append(
            ("of the heads 0 1 0 1, 0 and 1 are wanted: take the first, not each r-th", every)
        )
    if "layout" in kinds:
        cut = kept * width or None
        found.append(("its rows are as they were", stored[:cut]))
        found.append(
            ("its rows are moved the wrong way: row 2k goes to k", _pairs(stored, width)[:cut])
        )
        whole = np.concatenate([stored[::2], stored[1::2]])[:cut]
        found.append(
            ("its rows are moved across the heads: each head has an order of its own", whole)
        )
    return found


def _write(config, tensors, prompt, count):
    h, g, d = (config[f] for f in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    T, table = tensors, tensors["model.embed_tokens.weight"]
    caches = [[np.zeros((g, 0, d))] * 2 for _ in range(config["num_hidden_layers"])]
    text, new, start = list(prompt), list(prompt), 0

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + config["rms_norm_eps"]) * T[name]

    def turn(x):
        base = config["rope_parameters"]["rope_theta"]
        angle = (start + np.arange(x.shape[1]))[:, None] * base ** (-np.arange(0, d, 2) / d)
        one, two, c, s = x[..., : d // 2], x[..., d // 2 :], np.cos(angle), np.sin(angle)
        return np.concatenate([one * c - two * s, one * s + two * c], -1)

    for _ in range(count):
        x, m = table[new], len(new)
        for block, cache in enumerate(caches):
            at = f"model.layers.{block}."
            u = norm(x, at + "input_layernorm.weight")
            q, key, value = (
                (u @ T[f"{at}self_attn.{p}_proj.weight"].T).reshape(m, -1, d).swapaxes(0, 1)
                for p in "qkv"
            )
            cache[:] = [np.concatenate(pair, 1) for pair in zip(cache, (turn(key), value))]
            keys, values = (np.repeat(part, h // g, 0) for part in cache)
            scores = turn(q) @ keys.swapaxes(1, 2) / np.sqrt(d)
            seen = np.tri(m, start + m, start, dtype=bool)
            read = softmax(np.where(seen, scores, -np.inf)) @ values
            x = x + read.swapaxes(0, 1).reshape(m, -1) @ T[f"{at}self_attn.o_proj.weight"].T
            u = norm(x, at + "post_attention_layernorm.weight")
            gate, up = (u @ T[f"{at}mlp.{p}_proj.weight"].T for p in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ T[f"{at}mlp.down_proj.weight"].T
        logits = norm(x, "model.norm.weight")[-1] @ table.T
        start += m
        new = [int(logits.argmax())]
        text += new
    return np.array(text[len(prompt) :])


_WRITE = Slips(
    _write,
    {
        "a new token is turned as if fewer tokens stood before it: its position is the number of "
        "tokens before it": "(start + np.arange(x.shape[1])) → np.arange(x.shape[1])",
        "new tokens do not see the prompt and one another: keep keys and values of all tokens": (
            "np.concatenate(pair, 1) for pair in zip(cache, (turn(key), value)) → "
            "part for part in (turn(key), value)",
            "np.tri(m, start + m, start, dtype=bool) → np.tri(m, dtype=bool)",
        ),
        "queries take the heads of keys in turns: neighbours share a head": (
            "np.repeat(part, h // g, 0) → np.tile(part, (h // g, 1, 1))"
        ),
        "within the prompt a token sees those after it": (
            "np.where(seen, scores, -np.inf) → scores"
        ),
        "the tokens after the prompt are turned one position too far: the first new one stands at "
        "position n, after n tokens": (
            "(start + np.arange(x.shape[1])) → (start + (start > 0) + np.arange(x.shape[1]))"
        ),
        "gate and up are exchanged": 'for p in ("gate", "up") → for p in ("up", "gate")',
        "the last norm is left out": 'norm(x, "model.norm.weight")[-1] → x[-1]',
        "the keys are kept before they are turned and never turned": "(turn(key), value) → "
        "(key, value)",
        "the least likely token is taken": "argmax → argmin",
    },
)


def _plain_cost(config, n, count):
    """Multiplications and additions of matrix products, where all is read for each new token."""
    h, g, d = (config[f] for f in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    wide, hidden = config["hidden_size"], config["intermediate_size"]
    total = 0
    for m in range(n, n + count):
        block = m * wide * (2 * h * d + 2 * g * d + 3 * hidden) + 2 * h * m * m * d
        total += 2 * (config["num_hidden_layers"] * block + m * wide * config["vocab_size"])
    return total


@exercise("10.write_with_less", title="Write with half the work", difficulty=4, minutes=60)
def write_with_less(answer, ctx):
    # of one token to choose from there would be no choice
    blocks, g, k, half, d, hidden, V, n, count = ctx.sizes(
        blocks=(1, 2),
        g=(1, 2),
        k=(1, 3),
        half=(1, 3),
        d=(1, 8),
        hidden=(1, 8),
        V=(2, 40),
        n=(1, 7),
        count=(1, 10, 12),
    )

    def sample():
        folder = _lively(ctx, blocks, g, k, half, d, hidden, V)
        prompt = ctx.integers(0, V, n).tolist()
        arrays = {name: array(tensor) for name, tensor in folder[1].items()}
        right, wrong = _WRITE(folder[0], arrays, prompt, count)
        return *folder, prompt, right, wrong

    config, tensors, prompt, right, wrong = ctx.draw(sample, lambda drawn: _clear(*drawn), 8)
    with Products() as counter:
        got = ctx.call(answer, config, tensors, prompt, count)
    got = ctx.ids(got, "the new tokens")
    if got[:n] == prompt and len(got) == n + count:
        ctx.fail("the prompt comes back, too: only the new tokens are asked for")
    if len(got) != count:
        ctx.fail(f"{len(got)} tokens came back, expected {count}")
    ctx.recognize(np.array(got), right, wrong)
    if got != right.tolist():
        at = int((np.array(got) != right).argmax())
        ctx.fail(
            f"after a prompt of {n} tokens, new token {at} is {got[at]}, expected {right[at]}, as "
            f"the plain way writes it"
        )
    plain = _plain_cost(config, n, count)
    if count > 3 and counter.count > plain / 2:
        ctx.fail(
            f"the tokens are right, but for {count} of them after a prompt of {n} the matrix "
            f"products take {counter.count:,} multiplications and additions, "
            f"{100 * counter.count / plain:.0f} percent of the plain way: expected half at most"
        )


def _lively(ctx, *sizes):
    """A random folder whose texts depend on all that was read."""
    config, tensors = _folder(ctx, *sizes)
    config["rope_parameters"]["rope_theta"] = 100.0
    config["rms_norm_eps"] = 0.3
    # exponentials overflow, and some scores lie far below any finite mask
    hard = 4000.0 if ctx.case else 1.0
    for name in tensors:
        if "_proj" in name:
            tensors[name] = 2.5 * (hard if "q_proj" in name else 1.0) * tensors[name]
    return config, tensors


def _clear(config, tensors, prompt, right, wrong):
    """Whether rounding decides no token, and the known mistakes write other ones."""
    rough, near = np.random.default_rng(0), {}
    for name, tensor in tensors.items():
        near[name] = array(tensor) * (1 + 1e-3 * rough.standard_normal(tensor.shape))
    steady = np.array_equal(right, _write(config, near, prompt, len(right)))
    return steady and len({tuple(tokens) for tokens in (right, *wrong.values())}) > len(wrong)
