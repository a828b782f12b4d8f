import torch

from ..collection import edits, wrong

edit = edits("02.by_hand")
edit("do not add up to 1", "5.0, 7.0", "40, 56")
edit("entry 2 of the context is not 6", "7.0", "6.0")
edit("expected the tuple", "5.0, 7.0", "5.0")


edit = edits("02.backwards")
edit("expected one of 'nearly all'", "nearly none", "none")
edit("a float came back", '"nearly none"', "0.0")
edit("None came back", 'return "nearly none"', "pass")


edit = edits("02.additive_score")
edit("your code stopped with RuntimeError", ".unsqueeze(1)", "")
edit("no gradient goes back", "torch…", "(torch.tanh(from_state + from_annotations) @ v).detach()")
edit("no gradient reaches v", "@ v", "@ v.detach()")


@wrong("02.masked_context", "set to 0 after the softmax")
def masked_afterwards(scores, annotations, lengths):
    words = torch.arange(scores.shape[-1]) < lengths[:, None]
    weights = torch.softmax(scores, -1) * words
    return (weights[..., None] * annotations).sum(1), weights


edit = edits("02.masked_context")
edit("expected exactly 0", 'float("-inf")', "-6.0")
edit("returns (weights, context): expected (context, weights)", "context,…", "weights, context")
edit("no gradient reaches scores", "dim=-1)", "dim=-1).detach()")


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


edit = edits("02.bidirectional")
edit("2 × hidden_size wide", "both * real", "sum((both * real).chunk(2, -1))")
edit("no gradient goes back", "both * real", "(both * real).detach()")
edit("the gradient at inputs is not", "reversed(range(n))))", "reversed(range(n))).detach())")


@wrong("02.bidirectional", "padding positions are not 0")
def padding_left(forward, backward, inputs, lengths, size):
    return _annotate(forward, backward, inputs, lengths, size, mask=False)


edit = edits("02.project_once")
edit(
    "as projecting the annotations",
    "+ keys",
    "+ annotations @ W_h.T",
    "keys = annotations @ W_h.T\n    ",
    "",
)
edit(
    "projected anew in every step",
    "+ keys",
    "+ torch.tensordot(annotations, W_h, dims=([-1], [-1]))",
    "keys = annotations @ W_h.T\n    ",
    "",
)
edit(
    "projected anew in every step",
    "+ keys",
    "+ (annotations[:, :, None] * W_h).sum(-1)",
    "keys = annotations @ W_h.T\n    ",
    "",
)
edit(
    "no gradient reaches annotations",
    "annotations @ W_h.T",
    "(annotations @ W_h.T).detach() + 0 * W_h.sum()",
)
