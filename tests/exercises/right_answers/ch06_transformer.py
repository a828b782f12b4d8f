import math
from collections import OrderedDict, defaultdict

import numpy as np
import torch

from .collection import right, solution


@right("06.average_weights")
def ordered_dict(*given):
    return OrderedDict(solution("06.average_weights")(*given))


@right("06.filter_direction")
def default_dict(*given):
    result = defaultdict(lambda: None)
    result.update(solution("06.filter_direction")(*given))
    return result


@right("06.model_size")
def int_of_numpy(*given):
    return np.int64(solution("06.model_size")(*given))


@right("06.left_padded_mask")
def left_mask_by_loops(lengths, n):
    mask = torch.zeros(len(lengths), n, n, dtype=torch.bool)
    for b, size in enumerate(lengths.tolist()):
        for i in range(n):
            for j in range(n - size, i + 1):
                mask[b, i, j] = True
    return mask


@right("06.left_padded_mask")
def left_mask_by_tril(lengths, n):
    real = torch.arange(n).flip(0) < lengths.unsqueeze(1)
    return torch.ones(n, n, dtype=torch.bool).tril() * real.unsqueeze(1)


@right("06.empty_rows")
def rows_that_are_not_empty(query, key, value, mask):
    B, m, d = query.shape
    weights = query.new_zeros(B, m, key.shape[1])
    for b in range(B):
        for i in range(m):
            if mask[b, i].any():
                seen = mask[b, i]
                weights[b, i, seen] = torch.softmax(key[b, seen] @ query[b, i] / d**0.5, 0)
    return torch.bmm(weights, value), weights


@right("06.empty_rows")
def softmax_with_a_safe_shift(query, key, value, mask):
    scores = torch.einsum("bmd,bnd->bmn", query, key) / query.shape[-1] ** 0.5
    scores = scores.masked_fill(~mask, -torch.inf)
    top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    e = torch.exp(scores - top.detach())
    weights = e / e.sum(-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("bmn,bnv->bmv", weights, value), weights


@right("06.leaks")
def leaks_by_a_gradient_for_each_row(layer, x):
    n = len(x)
    found = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for feature in range(layer(x).shape[-1]):
            given = x.detach().clone().requires_grad_()
            (slopes,) = torch.autograd.grad(layer(given)[i, feature], given)
            found[i] |= slopes.abs().amax(1) > 1e-6
    return found & (torch.arange(n) > torch.arange(n)[:, None])


@right("06.take_heads_out")
def heads_by_views(W_q, W_k, W_v, W_o, num_heads, keep):
    d = len(W_q)
    kept = list(keep)
    first = [W.view(d, num_heads, -1)[:, kept].reshape(d, -1) for W in (W_q, W_k, W_v)]
    return *first, W_o.view(num_heads, -1, d)[kept].reshape(-1, d)


@right("06.take_heads_out")
def heads_by_slices(W_q, W_k, W_v, W_o, num_heads, keep):
    parts = [W.chunk(num_heads, dim=1) for W in (W_q, W_k, W_v)]
    rows = W_o.chunk(num_heads, dim=0)
    return (
        *(torch.hstack([chunks[i] for i in keep]) for chunks in parts),
        torch.vstack([rows[i] for i in keep]),
    )


@right("06.sinusoid_rows")
def sinusoids_in_numpy(places, d):
    angle = np.outer(places.numpy(), 10_000.0 ** (-np.arange(0, d, 2) / d))
    rows = np.zeros((len(places), d))
    rows[:, 0::2], rows[:, 1::2] = np.sin(angle), np.cos(angle)
    return torch.from_numpy(rows)


@right("06.relative_scores")
def relative_scores_distance_by_distance(q, k, table):
    n, K = q.shape[1], len(table) // 2
    distance = (torch.arange(n)[None, :] - torch.arange(n)[:, None]).clamp(-K, K)
    scores = torch.einsum("bid,bjd->bij", q, k)
    for r, vector in zip(range(-K, K + 1), table):
        scores = scores + (distance == r) * (q @ vector)[:, :, None]
    return scores * q.shape[-1] ** -0.5


@right("06.tree_distance")
def shortest_paths_by_floyd_and_warshall(heads):
    n = len(heads)
    distance = [[0 if i == j else n for j in range(n)] for i in range(n)]
    for word, head in enumerate(heads.tolist()):
        if head >= 0:
            distance[word][head] = distance[head][word] = 1
    for k in range(n):
        for i in range(n):
            for j in range(n):
                distance[i][j] = min(distance[i][j], distance[i][k] + distance[k][j])
    return torch.tensor(distance)


@right("06.tree_distance")
def up_to_the_first_common_word(heads):
    def path(word):
        way = [word]
        while int(heads[way[-1]]) >= 0:
            way.append(int(heads[way[-1]]))
        return way

    n = len(heads)
    paths = [path(word) for word in range(n)]
    result = torch.zeros(n, n, dtype=torch.long)
    for i in range(n):
        for j in range(n):
            common = next(word for word in paths[i] if word in paths[j])
            result[i, j] = paths[i].index(common) + paths[j].index(common)
    return result


@right("06.layer_norm")
def norm_by_the_library(x, g, b, eps):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], g, b, eps)


@right("06.layer_norm")
def norm_by_var_mean(x, g, b, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(b, (x - mean) * torch.rsqrt(variance + eps), g)


@right("06.filter_direction")
def filters_one_by_one(weights, noise):
    def scaled(weight, d):
        if weight.ndim < 2:
            return torch.zeros_like(weight)
        return torch.stack([f / f.norm() * w.norm() for f, w in zip(d, weight)])

    return {name: scaled(weight, noise[name]) for name, weight in weights.items()}


@right("06.encoder_block")
def block_in_steps(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    linear = torch.nn.functional.linear
    first = attention(norm_1(x) if pre_norm else x)
    x = x + first if pre_norm else norm_1(x + first)
    hidden = linear(norm_2(x) if pre_norm else x, w_1, b_1).clamp(min=0)
    x = x + linear(hidden, w_2, b_2)
    return x if pre_norm else norm_2(x)


@right("06.model_size")
def size_part_by_part(vocabulary, d, d_ff, layers):
    sizes = [vocabulary * d]
    for _ in range(layers):
        for attentions in (1, 2):
            sizes += attentions * [4 * d**2] + [(attentions + 1) * 2 * d]
            sizes += [d * d_ff + d_ff, d_ff * d + d]
    return sum(sizes)


@right("06.whole_model")
def model_with_a_scaled_table(E, P, encoder, decoder, source, lengths, target):
    table = E * math.sqrt(E.shape[1])
    n, m = source.shape[1], target.shape[1]
    real = torch.arange(n).expand(len(source), n).lt(lengths[:, None])[:, None, :]
    memory = encoder(torch.nn.functional.embedding(source, table) + P[:n], real)
    read = target.roll(1, 1)
    read[:, 0] = 1
    causal = torch.arange(m)[None] <= torch.arange(m)[:, None]
    states = decoder(table[read] + P[:m], memory, causal, real)
    return torch.einsum("bmd,vd->bmv", states, E).log_softmax(2)


@right("06.average_weights")
def running_sum(states):
    last = states[-1]
    sums = {}
    for state in states:
        for name, tensor in state.items():
            if tensor.is_floating_point():
                sums[name] = sums.get(name, 0) + tensor.to(torch.float64) / len(states)
    return {
        name: sums[name].to(tensor.dtype) if name in sums else tensor.clone()
        for name, tensor in last.items()
    }


@right("06.token_batches")
def batches_by_a_pointer(lengths, budget):
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batches, start = [], 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[order[end]] <= budget:
            end += 1
        batches.append(order[start:end])
        start = end
    return batches


@right("06.reorder_caches")
def caches_text_by_text(caches, parents):
    B, k = parents.shape

    def follow(tensor):
        texts = tensor.unflatten(0, (B, k))
        return torch.cat([text[own] for text, own in zip(texts, parents)])

    return [(follow(keys), follow(values)) for keys, values in caches]


@right("06.reorder_caches")
def caches_by_index_select(caches, parents):
    starts = torch.arange(0, parents.numel(), parents.shape[1])[:, None]
    rows = (starts + parents).reshape(-1)
    return [tuple(torch.index_select(part, 0, rows) for part in pair) for pair in caches]


@right("06.cached_attention")
def cached_head_by_head(x, keys, values, W_q, W_k, W_v, num_heads):
    m, t, width = x.shape[1], keys.shape[2], keys.shape[3]
    contexts, all_keys, all_values = [], [], []
    for h in range(num_heads):
        own = slice(h * width, (h + 1) * width)
        k = torch.cat([keys[:, h], x @ W_k[:, own]], 1)
        v = torch.cat([values[:, h], x @ W_v[:, own]], 1)
        scores = torch.bmm(x @ W_q[:, own], k.mT) / math.sqrt(width)
        later = torch.arange(t + m) > torch.arange(t, t + m)[:, None]
        contexts.append(torch.bmm(scores.masked_fill(later, -torch.inf).softmax(-1), v))
        all_keys.append(k)
        all_values.append(v)
    return torch.cat(contexts, -1), torch.stack(all_keys, 1), torch.stack(all_values, 1)


@right("06.cached_attention")
def cached_by_the_library(x, keys, values, W_q, W_k, W_v, num_heads):
    B, m, d = x.shape

    def split(W):
        return (x @ W).view(B, m, num_heads, d // num_heads).permute(0, 2, 1, 3)

    keys, values = torch.cat((keys, split(W_k)), -2), torch.cat((values, split(W_v)), -2)
    t = keys.shape[2] - m
    mask = torch.arange(t + m)[None] <= t + torch.arange(m)[:, None]
    context = torch.nn.functional.scaled_dot_product_attention(split(W_q), keys, values, mask)
    return context.permute(0, 2, 1, 3).reshape(B, m, d), keys, values


@right("06.hide_words")
def hidden_by_indexing(tokens, chosen, kind, other, mask):
    asked = chosen.bool() & tokens.ne(0)
    read, target = tokens.clone(), torch.zeros_like(tokens)
    target[asked] = tokens[asked]
    replaced = asked & (kind >= 0.8) & (kind < 0.9)
    read[replaced] = other[replaced]
    read[asked & (kind < 0.8)] = mask
    return read, target


@right("06.next_word_loss")
def next_word_one_by_one(logits, tokens):
    log_p, losses = logits.log_softmax(-1), []
    for b, row in enumerate(tokens.tolist()):
        losses += [-log_p[b, i - 1, word] for i, word in enumerate(row) if i and word]
    return torch.stack(losses).mean()


@right("06.next_word_loss")
def next_word_by_gather(logits, tokens):
    wanted = tokens[:, 1:]
    rows = logits[:, :-1] - logits[:, :-1].amax(-1, keepdim=True)
    loss = rows.logsumexp(-1) - rows.gather(-1, wanted[..., None]).squeeze(-1)
    return loss[wanted != 0].mean()


@right("06.telling_pairs")
def pairs_counted_by_hand(weights, looks, antecedent, other):
    shares = []
    for head in weights.unbind(1):
        told = [bool(w[i, a] > w[i, o]) for w, i, a, o in zip(head, looks, antecedent, other)]
        shares.append(sum(x and y for x, y in zip(told[::2], told[1::2])) / (len(told) // 2))
    return torch.tensor(shares)


@right("06.telling_pairs")
def pairs_by_gather(weights, looks, antecedent, other):
    B, h, _, n = weights.shape
    rows = weights.gather(2, looks.view(B, 1, 1, 1).expand(B, h, 1, n))[:, :, 0]
    gap = rows.gather(2, antecedent.view(B, 1, 1).expand(B, h, 1))
    gap = (gap - rows.gather(2, other.view(B, 1, 1).expand(B, h, 1)))[..., 0]
    return ((gap[0::2] > 0) & (gap[1::2] > 0)).float().mean(0)


@right("06.without_each_head")
def each_head_set_to_zero(heads, W_o, b_o):
    outputs = []
    for i in range(heads.shape[1]):
        kept = heads.clone()
        kept[:, i] = 0
        outputs.append(kept.transpose(1, 2).flatten(2) @ W_o + b_o)
    return torch.stack(outputs)


@right("06.without_each_head")
def the_other_heads_added_up(heads, W_o, b_o):
    h, w = heads.shape[1], heads.shape[3]
    parts = torch.einsum("bhmw,hwd->hbmd", heads, W_o.reshape(h, w, -1))
    others = 1 - torch.eye(h, dtype=parts.dtype)
    return torch.einsum("kh,hbmd->kbmd", others, parts) + b_o


@right("06.linformer_attention")
def mixtures_text_by_text(query, key, value, E, F, words):
    results = []
    for q, k, v, real in zip(query, key, value, words):
        mixed, kept = E[:, : len(k)][:, real] @ k[real], F[:, : len(v)][:, real] @ v[real]
        results.append(torch.softmax(q @ mixed.T / math.sqrt(q.shape[1]), 1) @ kept)
    return torch.stack(results)


@right("06.linformer_attention")
def mixtures_by_einsum(query, key, value, E, F, words):
    n, zero, there = key.shape[1], key.new_zeros(()), words.unsqueeze(-1)
    K = torch.einsum("kn,bnd->bkd", E[:, :n], torch.where(there, key, zero))
    V = torch.einsum("kn,bnv->bkv", F[:, :n], torch.where(there, value, zero))
    scores = torch.einsum("bmd,bkd->bmk", query, K) / query.shape[-1] ** 0.5
    return torch.einsum("bmk,bkv->bmv", scores.softmax(-1), V)


@right("06.stretch_mask")
def stretches_by_loops(n, width, stride):
    starts = range(0, n - width + 1, stride)
    return torch.tensor([[start + width - 1 <= i for start in starts] for i in range(n)])


@right("06.top_k_gates")
def gates_row_by_row(scores, k):
    gates = torch.zeros_like(scores)
    for word, row in enumerate(scores):
        best = row.argsort(descending=True)[:k]
        gates[word, best] = row[best].softmax(0)
    return gates


@right("06.top_k_gates")
def gates_scattered(scores, k):
    best, places = scores.topk(k, dim=-1)
    return torch.zeros_like(scores).scatter(-1, places, best.softmax(-1))


@right("06.swiglu")
def gate_written_out(x, gate, value, output):
    g = torch.einsum("bnd,dh->bnh", x, gate)
    return torch.einsum("bnh,hd->bnd", g * torch.sigmoid(g) * torch.matmul(x, value), output)


@right("06.chance_of_better")
def splits_by_bits(changed, plain):
    values = list(changed) + list(plain)
    n, k = len(values), len(changed)
    found = sum(changed) / k - sum(plain) / len(plain)
    as_good = total = 0
    for bits in range(2**n):
        if bin(bits).count("1") != k:
            continue
        mine = [v for i, v in enumerate(values) if bits >> i & 1]
        rest = [v for i, v in enumerate(values) if not bits >> i & 1]
        total += 1
        as_good += sum(mine) / k - sum(rest) / len(rest) <= found + 1e-9
    return as_good / total


@right("06.heads_side_by_side")
def heads_one_after_another(x, W_in, W_o, num_heads):
    n, d = x.shape[1:]
    width, contexts = d // num_heads, []
    for h in range(num_heads):
        q, k, v = (x @ W_in[:, p * d + h * width : p * d + (h + 1) * width] for p in range(3))
        scores = torch.bmm(q, k.mT) / math.sqrt(width)
        scores += torch.full((n, n), -torch.inf).triu(1)
        contexts.append(torch.bmm(scores.softmax(-1), v))
    return torch.cat(contexts, dim=-1) @ W_o


@right("06.heads_side_by_side")
def heads_by_the_library(x, W_in, W_o, num_heads):
    q, k, v = (x @ W_in).unflatten(-1, (3, num_heads, -1)).permute(2, 0, 3, 1, 4)
    context = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return context.permute(0, 2, 1, 3).flatten(2) @ W_o


@right("06.smooth_and_padded")
def smoothing_by_the_library(logits, targets, pad, epsilon):
    real = targets != pad
    return torch.nn.functional.cross_entropy(logits[real], targets[real], label_smoothing=epsilon)


@right("06.smooth_and_padded")
def smoothing_with_a_wanted_distribution(logits, targets, pad, epsilon):
    size, log_p = logits.shape[-1], logits.log_softmax(-1)
    wanted = (
        torch.nn.functional.one_hot(targets, size).to(logits.dtype) * (1 - epsilon) + epsilon / size
    )
    losses = -(wanted * log_p).sum(-1)
    return torch.stack(
        [loss for loss, word in zip(losses.view(-1), targets.view(-1)) if word != pad]
    ).mean()


@right("06.places_behind_a_cache")
def one_word_after_another(words, keys, values, places, W_q, W_k, W_v):
    contexts = []
    for word in words.unbind(1):
        x = word + places[keys.shape[1]]
        keys = torch.cat([keys, (x @ W_k)[:, None]], 1)
        values = torch.cat([values, (x @ W_v)[:, None]], 1)
        scores = torch.einsum("bd,bnd->bn", x @ W_q, keys) / math.sqrt(x.shape[1])
        contexts.append(torch.einsum("bn,bnd->bd", scores.softmax(1), values))
    return torch.stack(contexts, 1), keys, values


@right("06.stretch_mask")
def stretches_by_unfolding(n, width, stride):
    last = torch.arange(n).unfold(0, width, stride)[:, -1]
    return torch.arange(n).unsqueeze(1) >= last


@right("06.restart_positions")
def restart_by_counting(documents):
    found = torch.zeros_like(documents)
    for i in range(1, documents.shape[1]):
        same = documents[:, i] == documents[:, i - 1]
        found[:, i] = torch.where(same, found[:, i - 1] + 1, 0)
    return found


@right("06.adapter_bug")
def each_row_merged_by_itself(x, weight, down, up, which, alpha):
    rows = []
    for row, k in zip(x, which.tolist()):
        rows.append((weight + alpha / len(down[k]) * (up[k] @ down[k])) @ row)
    return torch.stack(rows)
