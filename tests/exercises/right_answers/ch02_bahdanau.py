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


@right("02.merge_subwords")
def with_index_add(weights, target_words, source_words):
    rows, columns = torch.tensor(target_words), torch.tensor(source_words)
    m, n = max(target_words) + 1, max(source_words) + 1
    by_source = weights.new_zeros(len(rows), n).index_add(1, columns, weights)
    total = weights.new_zeros(m, n).index_add(0, rows, by_source)
    return total / torch.bincount(rows)[:, None]


@right("02.look_by_content")
def with_bmm(embedded, state, annotations, W, real):
    d_e = embedded.shape[1]
    question = embedded @ W[:d_e] + state @ W[d_e:]
    scores = torch.bmm(annotations, question.unsqueeze(2)).squeeze(2)
    weights = F.softmax(torch.where(real, scores, -torch.inf), dim=1)
    return torch.bmm(weights.unsqueeze(1), annotations).squeeze(1), weights
