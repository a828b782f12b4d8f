from bisect import bisect

import numpy as np
import torch
import torch.nn.functional as F

from .collection import right, solution


@right("02.alignment_error_rate")
def link_by_link(predicted, sure, possible):
    hits, links = 0, len(predicted) + len(sure)
    for link in predicted:
        if link in sure:
            hits += 2
        elif link in possible:
            hits += 1
    return (links - hits) / links if links else 0


@right("02.alignment_error_rate")
def links_that_are_wrong(predicted, sure, possible):
    missed = sure.difference(predicted)
    invented = predicted.difference(sure, possible)
    return (len(missed) + len(invented)) / max(1, len(predicted) + len(sure))


@right("02.one_look")
def product_of_batches(state, annotations, W_s, W_h, v, real):
    hidden = F.linear(state, W_s)[:, None] + F.linear(annotations, W_h)
    scores = torch.einsum("bna,a->bn", hidden.tanh(), v)
    weights = torch.where(real, scores, -torch.inf).softmax(1)
    return torch.bmm(weights[:, None], annotations)[:, 0], weights


@right("02.one_look")
def sentence_after_sentence(state, annotations, W_s, W_h, v, real):
    contexts, weights = [], []
    for s, h, there in zip(state, annotations, real):
        scores = torch.tanh(W_s @ s + h[there] @ W_h.T) @ v
        alpha = torch.softmax(scores, dim=0)
        contexts.append(alpha @ h[there])
        weights.append(s.new_zeros(len(h)).masked_scatter(there, alpha))
    return torch.stack(contexts), torch.stack(weights)


@right("02.project_once")
def written_into_a_buffer(states, annotations, W_s, W_h, v):
    keys = F.linear(annotations, W_h)
    weights = keys.new_zeros(len(states), *keys.shape[:2])
    for t, s in enumerate(states):
        hidden = torch.tanh(F.linear(s, W_s)[:, None] + keys)
        weights[t] = torch.einsum("bna,a->bn", hidden, v).softmax(1)
    return weights


@right("02.project_once")
def keys_in_columns(states, annotations, W_s, W_h, v):
    keys = torch.einsum("ah,bnh->ban", W_h, annotations)

    def one_step(state):
        query = torch.einsum("ad,bd->ba", W_s, state).unsqueeze(2)
        scores = (v[:, None] * (query + keys).tanh()).sum(1)
        powers = torch.exp(scores - scores.amax(1, keepdim=True))
        return powers / powers.sum(1, keepdim=True)

    return torch.stack([one_step(states[t]) for t in range(states.shape[0])])


@right("02.project_once")
def list_of_keys(states, annotations, W_s, W_h, v):
    keys = [h @ W_h.T for h in annotations.unbind(dim=1)]
    steps = []
    for state in states:
        query = state @ W_s.T
        scores = torch.stack([torch.tanh(query + key) @ v for key in keys], dim=1)
        steps.append(scores.log_softmax(dim=1).exp()[None])
    return torch.cat(steps)


@right("02.bidirectional")
def each_source_alone(forward_cell, backward_cell, inputs, lengths, hidden_size):
    def read(cell, words):
        states = [inputs.new_zeros(1, hidden_size)]
        for x in words:
            states.append(cell(x[None], states[-1]))
        return torch.cat(states[1:])

    rows = inputs.new_zeros(*inputs.shape[:2], 2 * hidden_size)
    for b, k in enumerate(lengths.tolist()):
        words = inputs[b, :k]
        rows[b, :k, :hidden_size] = read(forward_cell, words)
        rows[b, :k, hidden_size:] = read(backward_cell, words.flip(0)).flip(0)
    return rows


@right("02.bidirectional")
def turned_round_and_back(forward_cell, backward_cell, inputs, lengths, hidden_size):
    batch, n, _ = inputs.shape
    place = torch.arange(n).expand(batch, n)
    real = place < lengths[:, None]
    turned = torch.where(real, lengths[:, None] - 1 - place, place)[..., None]
    halves = []
    for cell, x in ((forward_cell, inputs), (backward_cell, inputs.take_along_dim(turned, 1))):
        h, states = inputs.new_zeros(batch, hidden_size), []
        for t in range(n):
            h = cell(x[:, t], h)
            states.append(h)
        halves.append(torch.stack(states, 1))
    both = torch.cat([halves[0], halves[1].take_along_dim(turned, 1)], 2)
    return both.masked_fill(~real[..., None], 0.0)


@right("02.bidirectional")
def sources_that_go_on(forward_cell, backward_cell, inputs, lengths, hidden_size):
    def walk(cell, positions):
        state, after = inputs.new_zeros(len(inputs), hidden_size), {}
        for i in positions:
            going = (lengths > i).nonzero()[:, 0]
            state = state.index_copy(0, going, cell(inputs[going, i], state[going]))
            after[i] = torch.where(lengths[:, None] > i, state, 0.0)
        return torch.stack([after[i] for i in sorted(after)], dim=1)

    n = int(lengths.max())
    both = torch.dstack([walk(forward_cell, range(n)), walk(backward_cell, range(n)[::-1])])
    return F.pad(both, (0, 0, 0, inputs.shape[1] - n))


@right("02.accuracy_by_length")
def bins_with_bisect(predictions, references, lengths, edges):
    bins = [[] for _ in edges[1:]]
    for said, reference, length in zip(predictions, references, lengths):
        if edges[0] <= length < edges[-1]:
            bins[bisect(edges, length) - 1].append(said == reference)
    return [np.mean(hits) if hits else None for hits in bins]


@right("02.accuracy_by_length")
def histograms_of_numpy(predictions, references, lengths, edges):
    bins = np.digitize(lengths, edges) - 1
    hits = np.array([p == r for p, r in zip(predictions, references)])
    accuracy = []
    for k in range(len(edges) - 1):
        inside = bins == k
        accuracy.append(float(hits[inside].mean()) if inside.any() else None)
    return accuracy


@right("02.accuracy_by_length")
def counted_in_a_loop(predictions, references, lengths, edges):
    bins = len(edges) - 1
    hits, total = [0] * bins, [0] * bins
    for i in range(len(lengths)):
        for k in range(bins):
            if lengths[i] in range(edges[k], edges[k + 1]):
                total[k] += 1
                hits[k] += tuple(predictions[i]) == tuple(references[i])
    return tuple(h / t if t else None for h, t in zip(hits, total))


@right("02.reads_a_set")
def truth_of_numpy(attention, states, mask):
    return np.all([solution("02.reads_a_set")(attention, states, mask)])


@right("02.reads_a_set")
def swap_neighbours(attention, states, mask):
    before = attention(states, mask)
    for i in range(states.shape[1] - 1):
        order = list(range(states.shape[1]))
        order[i], order[i + 1] = i + 1, i
        if (attention(states[:, order], mask[:, order]) - before).abs().max() > 1e-4:
            return False
    return True


@right("02.reads_a_set")
def every_row_in_its_own_order(attention, states, mask):
    contexts = [attention(states, mask)]
    for _ in range(5):
        order = torch.rand(mask.shape).argsort(dim=1)
        shuffled = states.take_along_dim(order[:, :, None], dim=1)
        contexts.append(attention(shuffled, mask.gather(1, order)))
    return all(torch.allclose(contexts[0], c, atol=1e-4) for c in contexts[1:])


@right("02.reads_a_set")
def sentence_by_sentence(attention, states, mask):
    rng, apart = np.random.default_rng(0), []
    for h, real in zip(states, mask):
        context = attention(h[None], real[None])
        for _ in range(4):
            order = torch.from_numpy(rng.permutation(len(h)))
            apart.append(torch.dist(attention(h[order][None], real[order][None]), context))
    return torch.stack(apart).max() < 1e-3


@right("02.merge_subwords")
def with_index_add(weights, target_words, source_words):
    rows, columns = torch.tensor(target_words), torch.tensor(source_words)
    m, n = max(target_words) + 1, max(source_words) + 1
    by_source = weights.new_zeros(len(rows), n).index_add(1, columns, weights)
    total = weights.new_zeros(m, n).index_add(0, rows, by_source)
    return total / torch.bincount(rows)[:, None]


@right("02.merge_subwords")
def block_by_block(weights, target_words, source_words):
    target, source = torch.tensor(target_words), torch.tensor(source_words)
    rows = []
    for i in sorted(set(target_words)):
        block = weights[target == i].mean(0)
        rows.append(torch.stack([block[source == j].sum() for j in sorted(set(source_words))]))
    return torch.stack(rows)


@right("02.merge_subwords")
def piece_by_piece(weights, target_words, source_words):
    merged = weights.new_zeros(max(target_words) + 1, max(source_words) + 1)
    for row, k in zip(weights, target_words):
        for weight, j in zip(row, source_words):
            merged[k, j] += weight / target_words.count(k)
    return merged


@right("02.look_by_content")
def with_bmm(embedded, state, annotations, W, real):
    d_e = embedded.shape[1]
    question = embedded @ W[:d_e] + state @ W[d_e:]
    scores = torch.bmm(annotations, question.unsqueeze(2)).squeeze(2)
    weights = F.softmax(torch.where(real, scores, -torch.inf), dim=1)
    return torch.bmm(weights.unsqueeze(1), annotations).squeeze(1), weights


@right("02.look_by_content")
def only_where_words_are(embedded, state, annotations, W, real):
    contexts, weights = [], state.new_zeros(real.shape)
    for b, there in enumerate(real):
        question = torch.hstack([embedded[b], state[b]]) @ W
        alpha = torch.softmax(annotations[b, there] @ question, dim=0)
        contexts.append(alpha @ annotations[b, there])
        weights[b, there] = alpha
    return torch.stack(contexts), weights


@right("02.look_by_content")
def word_by_word(embedded, state, annotations, W, real):
    query = F.linear(torch.cat((embedded, state), 1), W.T)
    scores = torch.stack([(query * h).sum(1) for h in annotations.unbind(1)], dim=1)
    weights = (scores + real.log()).softmax(1)
    context = sum(w[:, None] * h for w, h in zip(weights.unbind(1), annotations.unbind(1)))
    return context, weights
