import torch

from ..collection import wrong


@wrong("02.additive_score", "the tanh is missing")
def no_tanh(state, annotations, W, U, v):
    return ((state @ W.T)[:, None] + annotations @ U.T) @ v


@wrong("02.additive_score", "ReLU stands where tanh should")
def relu(state, annotations, W, U, v):
    return torch.relu((state @ W.T)[:, None] + annotations @ U.T) @ v


@wrong("02.additive_score", "tanh comes after v")
def tanh_outside(state, annotations, W, U, v):
    return torch.tanh(((state @ W.T)[:, None] + annotations @ U.T) @ v)


@wrong("02.additive_score", "W and U are swapped")
def swapped(state, annotations, W, U, v):
    return torch.tanh((state @ U.T)[:, None] + annotations @ W.T) @ v


@wrong("02.additive_score", "transposed")
def transposed(state, annotations, W, U, v):
    return torch.tanh((state @ W)[:, None] + annotations @ U) @ v


@wrong("02.additive_score", "v is not used")
def no_v(state, annotations, W, U, v):
    return torch.tanh((state @ W.T)[:, None] + annotations @ U.T).sum(-1)


@wrong("02.additive_score", "the scores before the softmax")
def weights(state, annotations, W, U, v):
    return torch.softmax(torch.tanh((state @ W.T)[:, None] + annotations @ U.T) @ v, -1)


@wrong("02.additive_score", "your code stopped with RuntimeError")
def no_broadcast(state, annotations, W, U, v):
    return torch.tanh(state @ W.T + annotations @ U.T) @ v


def _words(scores, lengths, shift=0):
    return torch.arange(scores.shape[-1]) < (lengths + shift)[:, None]


def _context(weights, annotations):
    return (weights[..., None] * annotations).sum(1)


@wrong("02.masked_context", "the lengths are not used")
def no_mask(scores, annotations, lengths):
    weights = torch.softmax(scores, -1)
    return _context(weights, annotations), weights


@wrong("02.masked_context", "set to 0 after the softmax")
def mask_after(scores, annotations, lengths):
    weights = torch.softmax(scores, -1) * _words(scores, lengths)
    return _context(weights, annotations), weights


@wrong("02.masked_context", "exp(0) is 1")
def mask_multiplies(scores, annotations, lengths):
    weights = torch.softmax(scores * _words(scores, lengths), -1)
    return _context(weights, annotations), weights


@wrong("02.masked_context", "one padding position is left in")
def off_by_one(scores, annotations, lengths):
    weights = torch.softmax(scores.masked_fill(~_words(scores, lengths, 1), float("-inf")), -1)
    return _context(weights, annotations), weights


@wrong("02.masked_context", "the mask is upside down")
def inverted(scores, annotations, lengths):
    weights = torch.softmax(scores.masked_fill(_words(scores, lengths), float("-inf")), -1)
    return _context(weights, annotations), weights


@wrong("02.masked_context", "the mask is upside down")
def inverted_finite(scores, annotations, lengths):
    weights = torch.softmax(scores.masked_fill(_words(scores, lengths), -1e9), -1)
    return _context(weights, annotations), weights


@wrong("02.masked_context", "expected exactly 0")
def mild_fill(scores, annotations, lengths):
    weights = torch.softmax(scores.masked_fill(~_words(scores, lengths), -6.0), -1)
    return _context(weights, annotations), weights


@wrong("02.masked_context", "weights that do not know the padding")
def context_unmasked(scores, annotations, lengths):
    weights = torch.softmax(scores.masked_fill(~_words(scores, lengths), float("-inf")), -1)
    return _context(torch.softmax(scores, -1), annotations), weights


@wrong("02.masked_context", "returns (weights, context): expected (context, weights)")
def wrong_way_round(scores, annotations, lengths):
    weights = torch.softmax(scores.masked_fill(~_words(scores, lengths), float("-inf")), -1)
    return weights, _context(weights, annotations)


def _annotate(forward, backward, inputs, lengths, size, from_padding=False, turn=True, mask=True):
    batch, n, _ = inputs.shape
    result = torch.zeros(batch, n, 2 * size)
    for row, length in enumerate(lengths.tolist()):
        h = torch.zeros(1, size)
        for i in range(n if not mask else length):
            h = forward(inputs[row : row + 1, i], h)
            result[row, i, :size] = h[0]
        h, states = torch.zeros(1, size), []
        for i in reversed(range(n if from_padding else length)):
            h = backward(inputs[row : row + 1, i], h)
            states.append(h[0])
        for i, state in enumerate(states[::-1] if turn else states):
            if i < length:
                result[row, i, size:] = state
    return result


@wrong("02.bidirectional", "starts in the padding")
def from_padding(forward, backward, inputs, lengths, size):
    return _annotate(forward, backward, inputs, lengths, size, from_padding=True)


@wrong("02.bidirectional", "turn them round")
def unturned(forward, backward, inputs, lengths, size):
    return _annotate(forward, backward, inputs, lengths, size, turn=False)


def _flipped(forward, backward, inputs, lengths, size, skip):
    """Runs over the whole flipped batch and forgets to flip the states back."""
    result = _annotate(forward, backward, inputs, lengths, size)
    batch, n, _ = inputs.shape
    h, states = torch.zeros(batch, size), []
    for i in reversed(range(n)):
        new = backward(inputs[:, i], h)
        h = torch.where((i < lengths)[:, None], new, h) if skip else new
        states.append(h)
    real = torch.arange(n) < lengths[:, None]
    return torch.cat((result[..., :size], torch.stack(states, 1) * real[..., None]), -1)


@wrong("02.bidirectional", "flip them back along the positions")
def not_flipped_back(*inputs):
    return _flipped(*inputs, skip=True)


@wrong("02.bidirectional", "flip them back along the positions, and start at the last word")
def not_flipped_back_from_padding(*inputs):
    return _flipped(*inputs, skip=False)


@wrong("02.bidirectional", "one unit runs in both directions")
def one_cell(forward, backward, inputs, lengths, size):
    return _annotate(forward, forward, inputs, lengths, size)


@wrong("02.bidirectional", "padding positions are not 0")
def padding_left(forward, backward, inputs, lengths, size):
    return _annotate(forward, backward, inputs, lengths, size, mask=False)


@wrong("02.bidirectional", "the forward states come first")
def swapped_cells(forward, backward, inputs, lengths, size):
    return _annotate(backward, forward, inputs, lengths, size)


@wrong("02.bidirectional", "2 × hidden_size wide")
def added(forward, backward, inputs, lengths, size):
    return sum(_annotate(forward, backward, inputs, lengths, size).chunk(2, -1))


@wrong("02.project_once", "6 times (for 6 steps)")
def projects_each_step(states, annotations, W, U, v):
    return torch.stack(
        [torch.softmax(torch.tanh((s @ W.T)[:, None] + annotations @ U.T) @ v, -1) for s in states]
    )


@wrong("02.project_once", "projected anew in every step")
def projects_each_step_by_tensordot(states, annotations, W, U, v):
    return torch.stack(
        [
            torch.softmax(
                torch.tanh((s @ W.T)[:, None] + torch.tensordot(annotations, U, dims=([-1], [-1])))
                @ v,
                -1,
            )
            for s in states
        ]
    )


@wrong("02.project_once", "projected anew in every step")
def projects_each_step_by_a_sum(states, annotations, W, U, v):
    return torch.stack(
        [
            torch.softmax(
                torch.tanh((s @ W.T)[:, None] + (annotations[:, :, None] * U).sum(-1)) @ v, -1
            )
            for s in states
        ]
    )


@wrong("02.project_once", "a softmax over the positions is missing")
def no_softmax(states, annotations, W, U, v):
    keys = annotations @ U.T
    return torch.stack([torch.tanh((s @ W.T)[:, None] + keys) @ v for s in states])


@wrong("02.project_once", "all steps get the same weights")
def without_tanh(states, annotations, W, U, v):
    keys = annotations @ U.T
    return torch.stack([torch.softmax(((s @ W.T)[:, None] + keys) @ v, -1) for s in states])


@wrong("02.project_once", "score each state")
def first_state_only(states, annotations, W, U, v):
    keys = annotations @ U.T
    return torch.stack(
        [torch.softmax(torch.tanh((states[0] @ W.T)[:, None] + keys) @ v, -1) for _ in states]
    )


@wrong("02.project_once", "over the positions (dim=-1)")
def softmax_over_steps(states, annotations, W, U, v):
    keys = annotations @ U.T
    return torch.softmax(
        torch.stack([torch.tanh((s @ W.T)[:, None] + keys) @ v for s in states]), 0
    )


@wrong("02.additive_score", "no gradient goes back")
def scores_detached(state, annotations, W, U, v):
    return (torch.tanh((state @ W.T)[:, None] + annotations @ U.T) @ v).detach()


@wrong("02.additive_score", "no gradient reaches v")
def vector_detached(state, annotations, W, U, v):
    return torch.tanh((state @ W.T)[:, None] + annotations @ U.T) @ v.detach()


@wrong("02.masked_context", "no gradient reaches scores")
def weights_detached(scores, annotations, lengths):
    weights = torch.softmax(
        scores.masked_fill(~_words(scores, lengths), float("-inf")), -1
    ).detach()
    return _context(weights, annotations), weights


@wrong("02.project_once", "no gradient reaches annotations")
def keys_detached(states, annotations, W, U, v):
    keys = (annotations @ U.T).detach() + 0 * U.sum()
    return torch.stack(
        [torch.softmax(torch.tanh((s @ W.T)[:, None] + keys) @ v, -1) for s in states]
    )


@wrong("02.bidirectional", "no gradient goes back")
def states_detached(*given):
    return _annotate(*given).detach()


@wrong("02.bidirectional", "the gradient at inputs is not")
def backward_states_detached(*given):
    both, size = _annotate(*given), given[-1]
    return torch.cat([both[..., :size], both[..., size:].detach()], -1)
