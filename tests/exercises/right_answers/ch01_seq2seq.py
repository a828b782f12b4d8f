from itertools import accumulate, zip_longest

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from .collection import right, solution


@right("01.parts_left_out")
def hypothesis_by_hypothesis(log_probs, lengths, weights, alpha, beta):
    scores = []
    for log_p, m, rows in zip(log_probs, lengths.tolist(), weights):
        seen = torch.minimum(rows[:m].sum(0), torch.ones(()))
        scores.append(log_p * (6 / (5 + m)) ** alpha + beta * torch.log(seen).sum())
    return torch.stack(scores)


@right("01.parts_left_out")
def padding_filled_with_zeros(log_probs, lengths, weights, alpha, beta):
    padding = torch.arange(weights.shape[1])[None] >= lengths[:, None]
    seen = torch.einsum("kmn->kn", weights.masked_fill(padding[..., None], 0))
    penalty = torch.pow((5 + lengths).double() / 6, alpha).to(log_probs)
    return log_probs / penalty + beta * seen.log().clamp_max(0).sum(1)


@right("01.greedy")
def tokens_of_numpy(step, state, bos, eos, max_length):
    def of_numpy(token, now):
        return step(np.int64(token), now)

    return solution("01.greedy")(of_numpy, state, bos, eos, max_length)


@right("01.greedy")
def one_token_and_the_rest(step, state, bos, eos, max_length):
    if max_length == 0:
        return []
    log_probs, state = step(bos, state)
    token = max(range(len(log_probs)), key=log_probs.__getitem__)
    if token == eos:
        return []
    return [token, *one_token_and_the_rest(step, state, token, eos, max_length - 1)]


@right("01.beam_step")
def sort_and_unravel(so_far, following, beam_size):
    total = so_far[:, None] + following
    order = total.flatten().argsort(descending=True)[:beam_size]
    parents, tokens = torch.unravel_index(order, total.shape)
    return total[parents, tokens], parents, tokens


@right("01.beam_step")
def partition_of_numpy(so_far, following, beam_size):
    total = np.add(so_far.numpy()[:, None], following.numpy())
    best = np.argpartition(-total, beam_size - 1, axis=None)[:beam_size]
    best = best[np.argsort(-total.flat[best])]
    parents, tokens = np.divmod(best, following.shape[1])
    return tuple(torch.from_numpy(part) for part in (total.flat[best], parents, tokens))


@right("01.teacher_forcing")
def with_pad_sequence(targets, bos, eos, pad):
    read = [torch.tensor([bos, *target]) for target in targets]
    say = [torch.tensor([*target, eos]) for target in targets]
    return tuple(pad_sequence(rows, batch_first=True, padding_value=pad) for rows in (read, say))


@right("01.teacher_forcing")
def columns_with_zip_longest(targets, bos, eos, pad):
    def batch(rows):
        return torch.from_numpy(np.array(list(zip_longest(*rows, fillvalue=pad))).T)

    return batch([bos, *row] for row in targets), batch([*row, eos] for row in targets)


@right("01.last_states")
def with_gather(outputs, lengths):
    index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, outputs.shape[2])
    return outputs.gather(1, index)[:, 0]


@right("01.last_states")
def source_by_source(outputs, lengths):
    return torch.stack([states[:k][-1] for states, k in zip(outputs, lengths)])


@right("01.sequence_log_prob")
def with_cross_entropy(logits, targets, pad):
    loss = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad, reduction="none")
    return -loss.sum(dim=1)


@right("01.sequence_log_prob")
def one_hot_of_the_targets(logits, targets, pad):
    lead = logits - logits.amax(2, keepdim=True)
    log_p = lead - lead.exp().sum(2, keepdim=True).log()
    said = F.one_hot(targets, logits.shape[2]) * (targets != pad)[:, :, None]
    return torch.einsum("bmv,bmv->b", log_p, said.to(log_p))


@right("01.gru_step")
def torchs_own_cell(x, h, weight_ih, weight_hh, bias_ih, bias_hh):
    return torch.gru_cell(x, h, weight_ih, weight_hh, bias_ih, bias_hh)


@right("01.gru_step")
def gate_by_gate(x, h, weight_ih, weight_hh, bias_ih, bias_hh):
    W, U, b, c = (part.tensor_split(3) for part in (weight_ih, weight_hh, bias_ih, bias_hh))
    r = torch.sigmoid(F.linear(x, W[0], b[0]) + F.linear(h, U[0], c[0]))
    z = torch.sigmoid(F.linear(x, W[1], b[1]) + F.linear(h, U[1], c[1]))
    new = torch.tanh(F.linear(x, W[2], b[2]) + r * F.linear(h, U[2], c[2]))
    return torch.lerp(new, h, z)


@right("01.reverse_padded")
def flip_the_words(source, lengths):
    rows = [torch.cat([row[:k].flip(0), row[k:]]) for row, k in zip(source, lengths.tolist())]
    return torch.stack(rows)


@right("01.reverse_padded")
def copy_of_numpy(source, lengths):
    result = source.numpy().copy()
    for row, k in zip(result, lengths):
        row[:k] = row[:k][::-1].copy()
    return torch.from_numpy(result)


@right("01.clip_gradients")
def one_long_vector(gradients, max_norm):
    norm = torch.linalg.vector_norm(torch.cat([gradient.flatten() for gradient in gradients]))
    if norm > max_norm:
        return [gradient.mul(max_norm / norm) for gradient in gradients]
    return [gradient.clone() for gradient in gradients]


@right("01.clip_gradients")
def norm_of_norms(gradients, max_norm):
    norm = np.sqrt(sum(np.linalg.norm(gradient.numpy()) ** 2 for gradient in gradients))
    scale = max_norm / max(norm, max_norm) if norm > 0 else 1.0
    return [torch.multiply(gradient, float(scale)) for gradient in gradients]


@right("01.jacobian_norms")
def products_then_svd(weight, states):
    jacobians = [torch.diag(1 - h.square()) @ weight for h in states]
    products = list(accumulate(jacobians, lambda before, J: J @ before))
    return torch.linalg.svdvals(torch.stack(products))[:, 0]


@right("01.jacobian_norms")
def float64_of_numpy(weight, states):
    U, h = weight.numpy().astype(np.float64), states.numpy().astype(np.float64)
    product, norms = np.eye(len(U)), np.empty(len(h))
    for t in range(len(h)):
        product = (1 - h[t] ** 2)[:, None] * (U @ product)
        norms[t] = np.linalg.norm(product, 2)
    return torch.from_numpy(norms)


@right("01.loss_of_a_step")
def one_large_batch(batches, pad):
    logits = torch.cat([logits[targets != pad] for logits, targets in batches])
    words = torch.cat([targets[targets != pad] for _, targets in batches])
    return F.cross_entropy(logits, words)


@right("01.loss_of_a_step")
def mean_of_log_probs(batches, pad):
    log_probs = []
    for logits, targets in batches:
        picked = logits.log_softmax(2).gather(2, targets[:, :, None]).squeeze(2)
        log_probs.append(picked.masked_select(targets.ne(pad)))
    return -torch.hstack(log_probs).mean()
