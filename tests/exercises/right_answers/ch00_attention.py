from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from .collection import right


@right("00.weighted_sum")
def with_einsum(weights, values):
    return torch.einsum("...mn,...nd->...md", weights, values)


@right("00.weighted_sum")
def by_broadcasting(weights, values):
    return (weights[..., None] * values[..., None, :, :]).sum(dim=-2)


@right("00.temperature")
def one_hot_when_cold(scores, values, temperature):
    if temperature > 0:
        weights = F.softmax(scores / temperature, dim=1)
    else:
        weights = F.one_hot(scores.argmax(1), scores.shape[1]).to(values.dtype)
    return torch.einsum("mn,nd->md", weights, values)


@right("00.temperature")
def question_by_question(scores, values, temperature):
    contexts = []
    for row in scores:
        if not temperature:
            contexts.append(values[row.argmax()])
            continue
        powers = torch.exp((row - row.max()) / temperature)
        contexts.append((powers / powers.sum()) @ values)
    return torch.stack(contexts)


@right("00.masked_softmax")
def the_lowest_float(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


@right("00.masked_softmax")
def some_row_or_zeros(scores, mask):
    hidden = mask.logical_not() & mask.any(-1, keepdim=True)
    weights = F.softmax(torch.where(hidden, -torch.inf, scores), dim=-1)
    return torch.where(mask, weights, torch.zeros_like(weights))


@right("00.leave_one_out")
def rows_to_keep(predict, inputs):
    n, d = inputs.shape
    keep = ~torch.eye(n, dtype=torch.bool)
    return (predict(inputs.expand(n, n, d)[keep].view(n, n - 1, d)) - predict(inputs)).abs()


@right("00.leave_one_out")
def stacked_in_a_loop(predict, inputs):
    shorter = [torch.cat((inputs[:i], inputs[i + 1 :])) for i in range(len(inputs))]
    return torch.abs(predict(inputs[None]) - predict(torch.stack(shorter)))


@right("00.gradient_times_input")
def with_jacobian(predict, inputs):
    x = inputs.detach()
    slopes = torch.autograd.functional.jacobian(predict, x)
    return torch.tensor([abs(float(a @ b)) for a, b in zip(x, slopes)], dtype=x.dtype)


@right("00.gradient_times_input")
def with_a_jacobian(predict, inputs):
    slopes = torch.autograd.functional.jacobian(predict, inputs.detach())
    return torch.abs(torch.sum(inputs.detach() * slopes, dim=1))


@right("00.rank_agreement")
def tables_of_signs(first, second):
    signs = [np.sign(np.subtract.outer(x.numpy(), x.numpy())) for x in (first, second)]
    n = len(first)
    return np.sum(signs[0] * signs[1]) / (n * (n - 1))


@right("00.rank_agreement")
def sort_and_count_inversions(first, second):
    ranks = second[first.argsort()]
    n = len(ranks)
    inversions = sum(int((ranks[i + 1 :] < ranks[i]).sum()) for i in range(n))
    return 1 - 4 * inversions / (n * (n - 1))


@right("00.pool_a_batch")
def text_by_text(words, query, real):
    weights, contexts = words.new_zeros(real.shape), []
    for b, (text, there) in enumerate(zip(words, real)):
        share = (text[there] @ query).softmax(0)
        contexts.append(share @ text[there])
        weights[b, there] = share
    return torch.stack(contexts), weights


@right("00.pool_a_batch")
def powers_over_their_sum(words, query, real):
    scores = torch.einsum("bnd,d->bn", words, query).masked_fill(~real, -torch.inf)
    powers = (scores - scores.max(1, keepdim=True).values).exp()
    weights = powers / powers.sum(1, keepdim=True)
    return torch.bmm(weights.unsqueeze(1), words).squeeze(1), weights


@right("00.three_keys")
def as_a_fraction():
    return Fraction(32, 8)


@right("00.far_away")
def a_string_of_numpy():
    return np.array(["average", "last note"])[1]
