import math

import torch

from .collection import right


@right("07.dilations")
def powers_below(length):
    return [2**k for k in range(length) if 2**k < length]


@right("07.dilations")
def counted_by_bits(length):
    return [1 << k for k in range((length - 1).bit_length())]


@right("07.steps_back")
def reached_by_recursion(dilations):
    if not dilations:
        return [0]
    rest = reached_by_recursion(dilations[1:])
    return sorted({*rest, *(step + dilations[0] for step in rest)})


@right("07.steps_back")
def reached_by_all_subsets(dilations):
    sums = set()
    for bits in range(2 ** len(dilations)):
        sums.add(sum(R for k, R in enumerate(dilations) if bits >> k & 1))
    return sorted(sums)


@right("07.dense_block")
def block_place_by_place(x, W_far, W_near, b, dilation):
    D, rows = len(b) // 2, []
    for t in range(x.shape[1]):
        far = x[:, t - dilation] if t >= dilation else torch.zeros_like(x[:, 0])
        h = far @ W_far + x[:, t] @ W_near + b
        new = torch.tanh(h[:, :D]) * torch.sigmoid(h[:, D:])
        rows.append(torch.hstack([x[:, t], new]))
    return torch.stack(rows, 1)


@right("07.dense_block")
def block_by_a_convolution(x, W_far, W_near, b, dilation):
    kernel = torch.stack([W_far.T, W_near.T], -1)
    h = torch.nn.functional.pad(x.mT, (dilation, 0))
    h = torch.nn.functional.conv1d(h, kernel, b, dilation=dilation).mT
    f, g = h.tensor_split(2, -1)
    return torch.cat((x, torch.tanh(f) / (1 + torch.exp(-g))), -1)


@right("07.prototypes")
def prototypes_class_by_class(support, labels, query, ways):
    means = torch.stack([support[labels == y].mean(0) for y in range(ways)])
    scores = -(torch.cdist(query, means, compute_mode="donot_use_mm_for_euclid_dist") ** 2)
    return scores - scores.logsumexp(-1, keepdim=True)


@right("07.sequences")
def sequences_one_by_one(support, labels, query, ways):
    B, S, d = support.shape
    result = support.new_zeros(B, query.shape[1], S + 1, d + ways)
    for b in range(B):
        for i in range(query.shape[1]):
            for s in range(S):
                result[b, i, s, :d] = support[b, s]
                result[b, i, s, d + labels[b, s]] = 1
            result[b, i, S, :d] = query[b, i]
    return result


@right("07.sequences")
def sequences_from_an_identity(support, labels, query, ways):
    B, Q, d = query.shape
    examples = torch.cat([support, torch.eye(ways)[labels]], -1)
    asked = torch.cat([query, torch.zeros(B, Q, ways)], -1)
    return torch.cat([examples.unsqueeze(1).repeat(1, Q, 1, 1), asked.unsqueeze(2)], 2)


@right("07.ucb_choice")
def bounds_arm_by_arm(wins, pulls):
    chosen = []
    for won, pulled in zip(wins.tolist(), pulls.tolist()):
        bounds = [
            w / n + math.sqrt(2 * math.log(sum(pulled)) / n) if n else math.inf
            for w, n in zip(won, pulled)
        ]
        chosen.append(bounds.index(max(bounds)))
    return torch.tensor(chosen)


@right("07.policy_loss")
def loss_step_by_step(logits, values, actions, rewards):
    worlds, T = rewards.shape
    log_p, total = torch.log_softmax(logits, 2), 0
    for b in range(worlds):
        for t in range(T):
            G = rewards[b, t:].sum()
            total = total - (G - values[b, t].detach()) * log_p[b, t, actions[b, t]]
            total = total + 0.5 * (values[b, t] - G) ** 2
    return total / worlds


@right("07.policy_loss")
def loss_by_cross_entropy(logits, values, actions, rewards):
    returns = rewards.sum(1, keepdim=True) - rewards.cumsum(1) + rewards
    surprise = torch.nn.functional.cross_entropy(logits.mT, actions, reduction="none")
    policy = ((returns - values).detach() * surprise).sum()
    return (policy + (values - returns).square().sum() / 2) / len(logits)


@right("07.returns")
def returns_by_sums_over_worlds(rewards, done, first):
    world = first.long().cumsum(1)
    T = rewards.shape[1]
    same = world[:, :, None] == world[:, None, :]
    later = torch.arange(T)[None, :] >= torch.arange(T)[:, None]
    return ((same & later) * rewards[:, None, :]).sum(-1)


@right("07.returns")
def returns_in_python(rewards, done, first):
    result = []
    for row, begins in zip(rewards.tolist(), first.tolist()):
        sums = row[:]
        for t in range(len(row) - 2, -1, -1):
            if not begins[t + 1]:
                sums[t] += sums[t + 1]
        result.append(sums)
    return torch.tensor(result, dtype=rewards.dtype)


@right("07.value_iteration")
def plan_by_loops(transitions, means, horizon):
    S, A = means.shape
    values, actions = means.new_zeros(horizon, S), torch.zeros(horizon, S, dtype=torch.long)
    for h in range(horizon):
        for s in range(S):
            worth = []
            for a in range(A):
                after = (transitions[s, a] * values[h - 1]).sum() if h else 0.0
                worth.append(float(means[s, a] + after))
            values[h, s], actions[h, s] = max(worth), worth.index(max(worth))
    return values, actions


@right("07.value_iteration")
def plan_by_recursion(transitions, means, horizon):
    if horizon == 1:
        best = means.max(1)
        return best.values[None], best.indices[None]
    values, actions = plan_by_recursion(transitions, means, horizon - 1)
    best = (means + torch.einsum("sat,t->sa", transitions, values[-1])).max(1)
    return torch.vstack([values, best.values]), torch.vstack([actions, best.indices])


@right("07.near_and_far")
def looking_back_place_by_place(x, filters, gates):
    h = x
    for level in range(len(filters)):
        back, rows = 2**level, []
        for t in range(h.shape[1]):
            far = h[:, t - back] if t >= back else torch.zeros_like(h[:, 0])
            pair = torch.cat([far, h[:, t]], 1)
            rows.append((pair @ filters[level]).tanh() * (pair @ gates[level]).sigmoid())
        h = torch.cat([h, torch.stack(rows, 1)], 2)
    return h
