import math

import numpy as np
import torch
from torch.nn import functional as F

from .collection import right


@right("09.penalty_with_a_cache")
def penalty_by_loops(H, m, n):
    rows = torch.empty(H, m, n)
    for h in range(H):
        slope = 2 ** (-8 * (h + 1) / H)
        for r in range(m):
            i = n - m + r
            for j in range(n):
                rows[h, r, j] = -slope * (i - j) if j <= i else -math.inf
    return rows


@right("09.penalty_with_a_cache")
def the_last_rows_of_the_whole(H, m, n):
    place = torch.arange(n, dtype=torch.float32)
    whole = torch.where(place[:, None] >= place, place - place[:, None], -torch.inf)
    return torch.exp2(-8 / H * torch.arange(1, H + 1))[:, None, None] * whole[n - m :]


@right("09.means_of_heads")
def heads_added_up(W, had, kept):
    width, group = W.shape[1] // had, had // kept
    parts = W.split(width, dim=1)
    means = [sum(parts[g * group : (g + 1) * group]) / group for g in range(kept)]
    return torch.cat(means, dim=1)


@right("09.right_at_both_ends")
def head_by_head(Q, K, V):
    group = len(Q) // len(K)
    contexts = []
    for h, q in enumerate(Q):
        k, v = K[h // group], V[h // group]
        contexts.append(torch.softmax(q @ k.T / math.sqrt(q.shape[1]), 1) @ v)
    return torch.stack(contexts)


@right("09.right_at_both_ends")
def groups_as_a_dimension(Q, K, V):
    q = Q.unflatten(0, (len(K), -1))
    scores = torch.einsum("gsmd,gnd->gsmn", q, K) * Q.shape[-1] ** -0.5
    return torch.einsum("gsmn,gnv->gsmv", scores.softmax(-1), V).flatten(0, 1)


@right("09.merge_by_log_sums")
def merged_with_logaddexp(context_a, L_a, context_b, L_b):
    nothing = (L_a == -torch.inf) & (L_b == -torch.inf)
    L_a, L_b = L_a.masked_fill(nothing, 0.0), L_b.masked_fill(nothing, 0.0)
    L = torch.logaddexp(L_a, L_b)
    a, b = ((part - L).exp().masked_fill(nothing, 0.0)[:, None] for part in (L_a, L_b))
    return a * context_a + b * context_b, L.masked_fill(nothing, -torch.inf)


@right("09.worked_yesterday")
def blocks_with_log_sums(Q, K, V, size):
    context, L = torch.zeros(len(Q), V.shape[1]), torch.full((len(Q),), -math.inf)
    for start in range(0, len(K), size):
        scores = Q @ K[start : start + size].T / math.sqrt(Q.shape[1])
        own = scores.logsumexp(-1)
        both = torch.logaddexp(L, own)
        new = scores.softmax(-1) @ V[start : start + size]
        context = (L - both).exp()[:, None] * context + (own - both).exp()[:, None] * new
        L = both
    return context


@right("09.tiles_of_a_window")
def tiles_by_every_pair(n, rows, columns, w):
    found = []
    for i in range(-(-n // rows)):
        for j in range(-(-n // columns)):
            seen = [
                0 <= query - key < w
                for query in range(i * rows, min((i + 1) * rows, n))
                for key in range(j * columns, min((j + 1) * columns, n))
            ]
            if any(seen):
                found.append((i, j, all(seen)))
    return found


@right("09.second_round")
def the_window_cut_out(Q, K, V, sinks, window):
    contexts = []
    for t in range(len(Q)):
        kept = [j for j in range(t + 1) if j < sinks or j > t - window]
        contexts.append(torch.softmax(K[kept] @ Q[t] / math.sqrt(Q.shape[1]), 0) @ V[kept])
    return torch.stack(contexts)


@right("09.second_round")
def the_window_as_a_mask(Q, K, V, sinks, window):
    i, j = torch.arange(len(Q))[:, None], torch.arange(len(Q))
    mask = (j <= i) & ((j < sinks) | (j > i - window))
    return F.scaled_dot_product_attention(Q[None], K[None], V[None], mask)[0]


@right("09.more_features")
def features_by_indices(k, most):
    n, d = k.shape
    r = torch.stack([k, -k], 1).clamp(min=0).flatten(1)
    i = torch.arange(2 * d)
    offset = torch.arange(1, most + 1)[:, None]
    return (r[:, None] * r[:, (i + offset) % (2 * d)]).reshape(n, -1)


@right("09.decays_as_a_matrix")
def decays_by_products(Q, K, alpha):
    n = len(Q)
    A = Q.new_zeros(n, n)
    for i in range(n):
        for j in range(i + 1):
            A[i, j] = Q[i] @ K[j] * alpha[j + 1 : i + 1].prod()
    return A


@right("09.after_the_prompt")
def one_token_after_another(Q, K, V, gamma, size):
    S, out = Q.new_zeros(K.shape[1], V.shape[1]), []
    for q, k, v in zip(Q, K, V):
        S = gamma * S + torch.outer(k, v)
        out.append(q @ S)
    return torch.stack(out), S


@right("09.after_the_prompt")
def all_tokens_at_once(Q, K, V, gamma, size):
    n = len(Q)
    place = torch.arange(n).to(Q)
    decay = torch.where(place[:, None] >= place, gamma ** (place[:, None] - place).clamp(min=0), 0)
    last = gamma ** (n - 1 - place)
    return (Q @ K.T * decay) @ V, torch.einsum("n,nd,nv->dv", last, K, V)


@right("09.cut_by_merges")
def cut_by_building_anew(word, merges):
    parts = [*word]
    for x, y in merges:
        made, k = [], 0
        while k < len(parts):
            if parts[k] == x and parts[k + 1 : k + 2] == [y]:
                made.append(x + y)
                k += 2
            else:
                made.append(parts[k])
                k += 1
        parts = made
    return parts


@right("09.right_with_one_head")
def heads_by_chunks(x, W, b, h):
    parts = torch.addmm(b, x, W).chunk(3, dim=1)
    return tuple(torch.stack(part.chunk(h, dim=1)) for part in parts)


@right("09.nucleus")
def nucleus_token_by_token(p, share):
    kept, held = torch.zeros_like(p), 0.0
    for token in sorted(range(len(p)), key=lambda k: -p[k].item()):
        if held >= share:
            break
        kept[token] = p[token]
        held += p[token].item()
    return kept / kept.sum()


@right("09.guesses_checked")
def checked_by_masks(P, Q, x, u):
    said = P[: len(x)].gather(1, x[:, None])[:, 0]
    wrong = (u >= said).nonzero()
    if not len(wrong):
        return len(x), P[len(x)]
    k = wrong[0].item()
    rest = P[k] * (torch.arange(P.shape[1]) != x[k])
    return k, rest / rest.sum()


@right("09.pages_given_back")
def pages_popped(pages, length, readers, free, size, number):
    pages, readers, free = pages[:], readers[:], free[:]
    back = []
    while len(pages) * size >= length - number + size:
        back.insert(0, pages.pop())
    for page in back:
        readers[page] -= 1
        free += [page] * (readers[page] == 0)
    return pages, readers, free


@right("09.prefix_matching")
def matched_by_a_mask(weights, tokens):
    n = len(tokens)
    earlier = (tokens[:, None] == tokens).tril(-1)
    return (weights * F.pad(earlier, (1, 0))[:, :n]).sum() / earlier.any(1).sum()


@right("09.note_from_nowhere")
def copied_row_by_row(x, c):
    out = []
    for i in range(len(x)):
        before = [torch.zeros_like(x[0]), *x[:i]]
        weights = torch.softmax(torch.stack([c * (x[i] @ row) for row in before]), 0)
        out.append(weights @ x[: i + 1])
    return torch.stack(out)


@right("09.squares_back")
def squares_put_one_by_one(patches, C, P, across):
    B, N = patches.shape[:2]
    picture = patches.new_empty(B, C, N // across * P, across * P)
    for k in range(N):
        top, left = k // across * P, k % across * P
        picture[:, :, top : top + P, left : left + P] = patches[:, k].view(B, C, P, P)
    return picture


@right("09.squares_back")
def squares_by_fold(patches, C, P, across):
    height = patches.shape[1] // across * P
    return F.fold(patches.transpose(1, 2), (height, across * P), P, stride=P)


@right("09.one_opinion")
def latents_from_numpy(M, d):
    return torch.from_numpy(np.random.default_rng().normal(0, 0.02, (M, d))).float()


@right("09.all_it_took")
def taken_by_recursion(took, name):
    found = set()

    def visit(key):
        for other in took[key]:
            if other not in found:
                found.add(other)
                visit(other)

    visit(name)
    return found


@right("09.all_it_took")
def taken_from_a_queue(took, name):
    waiting, found = list(took[name]), set()
    while waiting:
        key = waiting.pop(0)
        if key not in found:
            found.add(key)
            waiting.extend(took[key])
    return found


@right("09.means_of_heads")
def heads_by_a_matrix_of_means(W, had, kept):
    width, group = W.shape[1] // had, had // kept
    mean = torch.eye(kept).to(W).repeat_interleave(group, 0) / group
    return torch.einsum("dhw,hk->dkw", W.reshape(-1, had, width), mean).reshape(len(W), -1)


@right("09.third_token")
def turned_as_complex_numbers(q, k, v, cache):
    t, half = (0 if cache is None else len(cache)), len(q) // 2
    turn = torch.polar(q.new_ones(half), t * 10_000 ** (-torch.arange(half).to(q) / half))

    def turned(x):
        z = torch.complex(x[:half], x[half:]) * turn
        return torch.cat([z.real, z.imag])

    cache = [*(cache or []), (turned(k), v)]
    keys, values = (torch.stack(part) for part in zip(*cache))
    return torch.softmax(keys @ turned(q) / math.sqrt(len(q)), 0) @ values, cache


def _turned(x, position):
    half = len(x) // 2
    angle = position * 10_000 ** (-torch.arange(half).to(x) / half)
    a, b = x[:half], x[half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()])


@right("09.third_token")
def lists_that_grow(q, k, v, cache):
    keys, values = ([], []) if cache is None else cache
    place = len(keys)
    keys.append(_turned(k, place))
    values.append(v)
    weights = (torch.stack(keys) @ _turned(q, place) / len(q) ** 0.5).softmax(0)
    return weights @ torch.stack(values), (keys, values)


@right("09.merge_by_log_sums")
def half_of_nothing(context_a, L_a, context_b, L_b):
    nothing = (L_a == -torch.inf) & (L_b == -torch.inf)
    L_a, L_b = L_a.masked_fill(nothing, 0.0), L_b.masked_fill(nothing, 0.0)
    L = torch.logaddexp(L_a, L_b)
    a, b = ((part - L).exp()[:, None] for part in (L_a, L_b))
    return a * context_a + b * context_b, L.masked_fill(nothing, -torch.inf)


@right("09.one_opinion")
def start_of_a_linear_layer(M, d):
    return torch.nn.Linear(d, M).weight.detach()
