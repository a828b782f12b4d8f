import torch

from ..collection import edits, wrong

edit = edits("09.turned_pair")
edit("before anything is turned", "3.0", "4.243")
edit("the inner product is not 4", "3.0", "4")
edit("expected one number", "3.0", '"three"')

edit = edits("09.where_it_looks")
edit("expected one of 'one or two before'", "six before", "nowhere")
edit("a float came back", '"six before"', "6.0")
edit("None came back", 'return "six before"', "pass")
edit("an int came back", '"six before"', "6")

edit = edits("09.penalty_with_a_cache")
edit("they are the last m of n positions", "torch.arange(n - m, n)", "torch.arange(m)")
edit("what is far loses", "-slopes[", "slopes[")
edit("heads are counted from 0", "torch.arange(1, H + 1)", "torch.arange(H)")
edit("the exponent is negative", "(-8 *", "(8 *")
edit("the exponent is -8h/H", "-8 * torch.arange(1, H + 1) / H", "-torch.arange(1, H + 1)")
edit("-inf where a key comes after", 'float("-inf")', "0.0")
edit("None came back", "return added", "added")

edit = edits("09.third_token")
edit("the keys are turned and the query is not", "turn(q[None], position)", "q[None]")
edit("the query is turned and the keys are not", "turn(k[None], position)", "k[None]")
edit("stand at different positions", "turn(q[None], position)", "turn(q[None], position + 1)")
edit("the cache is not read", "cache is not None", "False")
edit("expected the tuple (context, cache)", ", (keys, values)", "")


@wrong("09.third_token", "are turned once more at each token")
def as_printed(q, k, v, cache):
    def turn(x, position):
        half = x.shape[-1] // 2
        angle = position[:, None] * 10_000 ** (-torch.arange(half) / half)
        a, b = x[:, :half], x[:, half:]
        return torch.cat(
            [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1
        )

    keys, values = k[None], v[None]
    if cache is not None:
        keys = torch.cat([cache[0], keys])
        values = torch.cat([cache[1], values])
    position = torch.arange(len(keys))
    keys = turn(keys, position)
    weights = torch.softmax(turn(q[None], position[-1:]) @ keys.T / len(q) ** 0.5, dim=-1)
    return (weights @ values)[0], (keys, values)


edit = edits("09.penalty_with_a_cache")
edit("up to its own position", "distance < 0", "distance <= 0")


edit = edits("09.third_token")
edit("a key stands one position behind the query", "k[None], position", "k[None], position + 1")


@wrong("09.third_token", "the new key is not turned, and those from the cache are")
def turned_when_read(q, k, v, cache):
    old = (k[:0], v[:0]) if cache is None else cache
    keys, values = old[0].reshape(-1, len(k)), old[1].reshape(-1, len(v))
    seen = torch.cat([_turn(keys, torch.arange(len(keys))), k[None]])
    values = torch.cat([values, v[None]])
    weights = torch.softmax(_turn(q[None], torch.tensor([len(keys)])) @ seen.T / len(q) ** 0.5, -1)
    return (weights @ values)[0], (torch.cat([keys, k[None]]), values)


_COUNT = [0]


@wrong("09.third_token", "of two that are read in turns")
def counted_outside(q, k, v, cache):
    _COUNT[0] = 0 if cache is None else _COUNT[0] + 1
    place = torch.tensor([_COUNT[0]])
    keys, values = (k[:0, None], v[:0, None]) if cache is None else cache
    keys = torch.cat([keys.reshape(-1, len(k)), _turn(k[None], place)])
    values = torch.cat([values.reshape(-1, len(v)), v[None]])
    weights = torch.softmax(_turn(q[None], place) @ keys.T / len(q) ** 0.5, dim=-1)
    return (weights @ values)[0], (keys, values)


def _turn(x, position):
    half = x.shape[-1] // 2
    angle = position[:, None] * 10_000 ** (-torch.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)
