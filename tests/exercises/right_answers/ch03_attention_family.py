import numpy as np
import torch
import torch.nn.functional as F

from .collection import right


@right("03.reduced_rank")
def svd_of_numpy(W, k):
    A, sizes, B = np.linalg.svd(W.numpy().astype(np.float64))
    root = np.sqrt(sizes[:k])
    return torch.from_numpy((A[:, :k] * root).T), torch.from_numpy(root[:, None] * B[:k])


@right("03.reduced_rank")
def onto_eigenvectors(W, k):
    _, vectors = torch.linalg.eigh(W @ W.T)  # the largest eigenvalues come last
    U = vectors[:, -k:].T
    return [U, U @ W]


@right("03.window")
def place_by_place(position, D, lengths, n):
    inside = torch.zeros(len(position), n, dtype=torch.bool)
    for b, (p, length) in enumerate(zip(position.tolist(), lengths.tolist())):
        centre = int(p + 0.5)
        for place in range(max(0, centre - D), min(length, centre + D + 1)):
            inside[b, place] = True
    return inside


@right("03.window")
def without_rounding(position, D, lengths, n):
    p, j = position.numpy()[:, None], np.arange(n)
    inside = (j - D <= p + 0.5) & (p + 0.5 < j + D + 1)
    return torch.from_numpy(inside & (j < lengths.numpy()[:, None]))


@right("03.gaussian_weights")
def slice_by_slice(scores, position, D, lengths):
    weights = torch.zeros_like(scores)
    for b in range(len(scores)):
        centre = int(torch.floor(position[b] + 0.5))
        start, end = max(0, centre - D), min(int(lengths[b]), centre + D + 1)
        away = torch.arange(start, end) - position[b]
        weights[b, start:end] = scores[b, start:end].softmax(0) * torch.exp(-2 * (away / D) ** 2)
    return weights


@right("03.gaussian_weights")
def gathered_window(scores, position, D, lengths):
    places = (position + 0.5).floor().long()[:, None] + torch.arange(-D, D + 1)
    real = (places >= 0) & (places < lengths[:, None])
    index = places.clamp(0, scores.shape[1] - 1)
    logits = torch.where(real, scores.gather(1, index), -torch.inf).log_softmax(1)
    bell = -0.5 * ((places - position[:, None]) / (D / 2)).square()
    return torch.zeros_like(scores).scatter_add(1, index, (logits + bell).exp())


@right("03.input_feeding")
def with_torch_attention(cell, embedded, start, annotations, W, W_c):
    m, batch, _ = embedded.shape
    s, fed = start, start.new_zeros(batch, W_c.shape[0])
    vectors = []
    for t in range(m):
        s = cell(torch.hstack([embedded[t], fed]), s)
        query = (s @ W).unsqueeze(1)
        c = F.scaled_dot_product_attention(query, annotations, annotations, scale=1.0)
        fed = F.linear(torch.hstack([c[:, 0], s]), W_c).tanh()
        vectors.append(fed)
    return torch.stack(vectors)


@right("03.input_feeding")
def step_after_step(cell, embedded, start, annotations, W, W_c):
    keys = torch.einsum("de,bne->bnd", W, annotations)

    def steps(words, s, fed):
        if len(words) == 0:
            return []
        s = cell(torch.cat([words[0], fed], 1), s)
        alpha = torch.einsum("bd,bnd->bn", s, keys).softmax(1)
        c = torch.einsum("bn,bnd->bd", alpha, annotations)
        of_context, of_state = W_c.tensor_split(2, dim=1)
        fed = torch.tanh(c @ of_context.T + s @ of_state.T)
        return [fed, *steps(words[1:], s, fed)]

    return torch.stack(steps(embedded, start, torch.zeros(start.shape)))


@right("03.sentence_losses")
def all_words_in_one_row(logits, words, lengths):
    losses = F.cross_entropy(logits.flatten(0, 1), words.flatten(), reduction="none")
    rows = losses.view(words.shape)
    return torch.stack([row[:k].mean() for row, k in zip(rows, lengths.tolist())])


@right("03.sentence_losses")
def with_gather(logits, words, lengths):
    log_p = logits.log_softmax(-1).gather(2, words[..., None])[..., 0]
    padding = torch.arange(words.shape[1])[None] >= lengths[:, None]
    return -log_p.masked_fill(padding, 0.0).sum(1) / lengths


@right("03.words_before")
def first_row_apart(x, W_q, W_k, W_v):
    batch, n, _ = x.shape
    q, k, v = (torch.einsum("bnx,dx->bnd", x, W) for W in (W_q, W_k, W_v))
    scores = torch.einsum("btd,bid->bti", q[:, 1:], k) / np.sqrt(k.shape[-1])
    later = torch.triu(torch.ones(n - 1, n, dtype=torch.bool), diagonal=1)
    weights = scores.masked_fill(later, -torch.inf).softmax(2)
    weights = torch.cat([x.new_zeros(batch, 1, n), weights], dim=1)
    return torch.einsum("bti,bid->btd", weights, v), weights


@right("03.lstmn_step")
def with_torch_lstm_cell(x, h_tape, c_tape, summary, W_h, W_x, W_s, v, W, b):
    query = F.linear(x, W_x) + F.linear(summary, W_s)
    scores = torch.einsum("bta,a->bt", (F.linear(h_tape, W_h) + query[:, None]).tanh(), v)
    weights = scores.softmax(1)
    h, c = (torch.einsum("bt,btd->bd", weights, tape) for tape in (h_tape, c_tape))

    def in_torchs_order(rows):
        i, f, o, new = rows.chunk(4)
        return torch.cat([i, f, new, o])

    of_h, of_x = in_torchs_order(W).split([h.shape[1], x.shape[1]], dim=1)
    new_h, new_c = torch.lstm_cell(x, (h, c), of_x, of_h, in_torchs_order(b), torch.zeros_like(b))
    return torch.hstack([h_tape, new_h[:, None]]), torch.hstack([c_tape, new_c[:, None]]), h


@right("03.lstmn_step")
def row_of_the_tape_by_row(x, h_tape, c_tape, summary, W_h, W_x, W_s, v, W, b):
    d = summary.shape[1]
    h, c = torch.zeros_like(summary), torch.zeros_like(summary)
    query = x @ W_x.T + summary @ W_s.T
    scores = [torch.tanh(row @ W_h.T + query) @ v for row in h_tape.unbind(1)]
    if scores:
        for t, weight in enumerate(torch.stack(scores).softmax(0)):
            h = h + weight[:, None] * h_tape[:, t]
            c = c + weight[:, None] * c_tape[:, t]
    gates = h @ W[:, :d].T + x @ W[:, d:].T + b
    i, f, o = gates[:, : 3 * d].sigmoid().split(d, dim=1)
    new_c = torch.addcmul(f * c, i, gates[:, 3 * d :].tanh())
    new_h = o * new_c.tanh()
    tapes = [torch.cat([a, z.unsqueeze(1)], 1) for a, z in ((h_tape, new_h), (c_tape, new_c))]
    return (*tapes, h)


@right("03.sparsemax")
def threshold_by_row(scores):
    rows = []
    for z in scores.reshape(-1, scores.shape[-1]):
        top = z.sort(descending=True)[0]
        taus = [(top[: k + 1].sum() - 1) / (k + 1) for k in range(len(z))]
        tau = [tau for tau, score in zip(taus, top) if score > tau][-1]
        rows.append(torch.relu(z - tau))
    return torch.stack(rows).view(scores.shape)


@right("03.sparsemax")
def largest_subtracted_first(scores):
    z = scores - scores.amax(-1, keepdim=True)
    top = torch.topk(z, z.shape[-1], dim=-1).values
    k = torch.arange(1, z.shape[-1] + 1).to(z)
    taus = (top.cumsum(-1) - 1) / k
    tau = taus.gather(-1, (top > taus).sum(-1, keepdim=True) - 1)
    return torch.where(z > tau, z - tau, 0.0)


@right("03.reinforce")
def with_categorical(scores, chosen, log_p, baseline, entropy_weight):
    look = torch.distributions.Categorical(logits=scores)
    with torch.no_grad():
        gain = log_p - baseline
    reward = log_p + gain * look.log_prob(chosen).sum(1)
    return -(reward + entropy_weight * look.entropy().sum(1)).mean()


@right("03.reinforce")
def with_cross_entropy(scores, chosen, log_p, baseline, entropy_weight):
    surprise = F.cross_entropy(scores.transpose(1, 2), chosen, reduction="none").sum(1)
    chances, logs = F.softmax(scores, -1), F.log_softmax(scores, -1)
    gain = (log_p - baseline).detach()
    loss = gain @ surprise - log_p.sum() + entropy_weight * torch.sum(chances * logs)
    return loss / len(scores)


@right("03.two_heads")
def repel_the_others(numbers):
    d, far = numbers + 3, 40 * numbers**0.5
    W_q, W_k = np.zeros((1, 2 * numbers)), np.zeros((d, 2 * numbers))
    W_q[0, [0, numbers]] = 1
    W_k[[numbers, numbers + 2], 0] = -far
    W_k[[numbers, numbers + 1], numbers] = -far
    W_v = np.vstack([np.hstack([np.eye(numbers)] * 2), np.zeros((3, 2 * numbers))])
    return [torch.tensor(W, dtype=torch.float32) for W in (W_q, W_k, W_v, np.eye(2 * numbers))]


@right("03.two_heads")
def all_columns_ask(numbers):
    ask = torch.full((1, 2 * numbers), 5.0)
    flags = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    keys = F.pad(5 * flags.repeat_interleave(numbers, dim=1), (0, 0, numbers, 0))
    backwards = torch.eye(numbers).flip(0)
    values = F.pad(backwards.repeat(1, 2), (0, 0, 0, 3))
    return ask, keys, values, torch.block_diag(backwards, backwards)


@right("03.multi_head")
def with_einsum(query, source, W_q, W_k, W_v, W_o, num_heads, mask):
    q, k, v = (
        torch.einsum("bnd,dhc->bhnc", x, W.unflatten(1, (num_heads, -1)))
        for x, W in ((query, W_q), (source, W_k), (source, W_v))
    )
    scores = torch.einsum("bhqc,bhkc->bhqk", q, k) * q.shape[-1] ** -0.5
    weights = torch.where(mask[:, None], scores, -torch.inf).softmax(-1)
    return torch.einsum("bhqk,bhkc,hcd->bqd", weights, v, W_o.unflatten(0, (num_heads, -1)))


@right("03.multi_head")
def with_multi_head_attention_forward(query, source, W_q, W_k, W_v, W_o, num_heads, mask):
    query, source = query.transpose(0, 1), source.transpose(0, 1)
    out, _ = F.multi_head_attention_forward(
        *(query, source, source, len(W_q), num_heads),
        *(torch.cat([W_q.T, W_k.T, W_v.T]), None, None, None, False, 0.0, W_o.T, None),
        attn_mask=~mask.repeat_interleave(num_heads, dim=0),
        need_weights=False,
    )
    return out.transpose(0, 1)


@right("03.learned_query")
def text_by_text(annotations, W, b, u, lengths):
    n = annotations.shape[1]
    pooled, weights = [], []
    for h, length in zip(annotations, lengths.tolist()):
        alpha = torch.softmax(torch.tanh(F.linear(h[:length], W, b)) @ u, dim=0)
        pooled.append(alpha @ h[:length])
        weights.append(F.pad(alpha, (0, n - length)))
    return torch.stack(pooled), torch.stack(weights)


@right("03.learned_query")
def only_rows_with_words(annotations, W, b, u, lengths):
    batch, n, _ = annotations.shape
    some = lengths > 0
    padding = torch.arange(n) >= lengths[some][:, None]
    keys = torch.tanh(torch.einsum("ad,bnd->bna", W, annotations[some]) + b)
    weights = annotations.new_zeros(batch, n)
    weights[some] = torch.einsum("bna,a->bn", keys, u).masked_fill(padding, -torch.inf).softmax(1)
    return torch.einsum("bn,bnd->bd", weights, annotations), weights


@right("03.words_look_at_words")
def sentence_by_sentence(words, W_q, W_k, W_v, lengths):
    out = torch.zeros_like(words)
    for b, length in enumerate(lengths):
        x = words[b, :length]
        scores = (x @ W_q) @ (x @ W_k).T / x.shape[-1] ** 0.5
        out[b, :length] = torch.softmax(scores, dim=-1) @ (x @ W_v)
    return out


@right("03.words_look_at_words")
def torch_attention_with_a_mask(words, W_q, W_k, W_v, lengths):
    real = torch.arange(words.shape[1])[None] < lengths[:, None]
    out = F.scaled_dot_product_attention(
        words @ W_q, words @ W_k, words @ W_v, attn_mask=real[:, None]
    )
    return torch.where(real[:, :, None], out, 0.0)


@right("03.longest_first")
def all_words_at_once(features, states, lengths, W):
    weights = (states @ W @ features.mT).softmax(-1)
    behind = torch.arange(states.shape[1]) >= lengths[:, None]
    return (weights @ features).masked_fill(behind[..., None], 0.0)


@right("03.position_encoding")
def two_sums(embedded, lengths):
    _, words, d = embedded.shape
    share = torch.arange(1, words + 1).to(embedded) / lengths[:, None]
    real = (share <= 1).to(embedded)
    fixed = torch.einsum("bj,bjd->bd", real * (1 - share), embedded)
    sloped = torch.einsum("bj,bjd->bd", real * (1 - 2 * share), embedded)
    return fixed - torch.arange(1, d + 1).to(embedded) / d * sloped


@right("03.position_encoding")
def words_one_by_one(embedded, lengths):
    d = embedded.shape[-1]
    r = torch.arange(1, d + 1).to(embedded)
    sentences = []
    for x, J in zip(embedded, lengths.tolist()):
        scales = [(1 - j / J) - (r / d) * (1 - 2 * j / J) for j in range(1, J + 1)]
        sentences.append(sum(l * word for l, word in zip(scales, x)))
    return torch.stack(sentences)


@right("03.memory_hops")
def one_hop_and_the_rest(question, memories, lengths):
    keys, values, *_ = memories
    padding = torch.arange(keys.shape[1]) >= lengths[:, None]
    scores = torch.einsum("bd,bnd->bn", question, keys).masked_fill(padding, -torch.inf)
    p = scores.softmax(1)
    u = question + torch.einsum("bn,bnd->bd", p, values)
    if len(memories) == 2:
        return u, p[:, None]
    u, weights = one_hop_and_the_rest(u, memories[1:], lengths)
    return u, torch.cat([p[:, None], weights], 1)


@right("03.memory_hops")
def story_by_story(question, memories, lengths):
    weights = question.new_zeros(len(question), len(memories) - 1, memories[0].shape[1])
    asked = []
    for b, (u, length) in enumerate(zip(question, lengths)):
        for k in range(len(memories) - 1):
            p = torch.softmax(memories[k][b, :length] @ u, dim=0)
            u = u + p @ memories[k + 1][b, :length]
            weights[b, k, :length] = p
        asked.append(u)
    return torch.stack(asked), weights


@right("03.every_prefix")
def sums_that_run_along(scores, values):
    top, numerator, denominator, rows = scores.amax(1), 0.0, 0.0, []
    for e, value in zip(scores.unbind(1), values.unbind(1)):
        power = torch.exp(e - top)[:, None]
        numerator, denominator = numerator + power * value, denominator + power
        rows.append(numerator / denominator)
    return torch.stack(rows, dim=1)


@right("03.every_prefix")
def moving_averages(scores, values):
    share = torch.exp(scores - scores.logcumsumexp(1))  # of each word when it comes
    mean, rows = torch.zeros_like(values[:, 0]), []
    for t in range(scores.shape[1]):
        mean = mean + share[:, t, None] * (values[:, t] - mean)
        rows.append(mean)
    return torch.stack(rows, 1)
