import torch

from ..collection import wrong


def _rows(rows, width, pad):
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])


def _width(targets):
    return max(len(target) for target in targets) + 1


@wrong("01.teacher_forcing", "it reads the answer")
def leak(targets, bos, eos, pad):
    out = _rows([[*y, eos] for y in targets], _width(targets), pad)
    return out, out.clone()


@wrong("01.teacher_forcing", "holds EOS in the shorter rows")
def cut_at_both_ends(targets, bos, eos, pad):
    full = _rows([[bos, *y, eos] for y in targets], _width(targets) + 1, pad)
    return full[:, :-1], full[:, 1:]


@wrong("01.teacher_forcing", "does not end with EOS")
def no_eos(targets, bos, eos, pad):
    width = _width(targets)
    return _rows([[bos, *y] for y in targets], width, pad), _rows(targets, width, pad)


@wrong("01.teacher_forcing", "right after the last token")
def eos_last(targets, bos, eos, pad):
    width = _width(targets)
    out = _rows(targets, width, pad)
    out[:, -1] = eos
    return _rows([[bos, *y] for y in targets], width, pad), out


@wrong("01.teacher_forcing", "padded with 0")
def pad_is_zero(targets, bos, eos, pad):
    width = _width(targets)
    return _rows([[bos, *y] for y in targets], width, 0), _rows(
        [[*y, eos] for y in targets], width, 0
    )


@wrong("01.teacher_forcing", "takes m + 1 steps")
def both_ends(targets, bos, eos, pad):
    rows = [[bos, *y, eos] for y in targets]
    full = _rows(rows, _width(targets) + 1, pad)
    return full, full


@wrong("01.teacher_forcing", "expected the tuple (target_in, target_out)")
def only_one(targets, bos, eos, pad):
    return _rows([[bos, *y] for y in targets], _width(targets), pad)


@wrong("01.teacher_forcing", "changes its argument targets in place")
def appends(targets, bos, eos, pad):
    width = _width(targets)
    target_in = _rows([[bos, *y] for y in targets], width, pad)
    for y in targets:
        y.append(eos)
    return target_in, _rows(targets, width, pad)


@wrong("01.teacher_forcing", "target_in is padded with EOS")
def filled_with_eos(targets, bos, eos, pad):
    width = _width(targets)
    return _rows([[bos, *y] for y in targets], width, eos), _rows(targets, width, eos)


@wrong("01.teacher_forcing", "target_out is padded with EOS")
def out_filled_with_eos(targets, bos, eos, pad):
    width = _width(targets)
    return _rows([[bos, *y] for y in targets], width, pad), _rows(targets, width, eos)


def _left(rows, width, pad):
    return torch.tensor([[*[pad] * (width - len(row)), *row] for row in rows])


@wrong("01.teacher_forcing", "target_in is padded at the left")
def padded_left(targets, bos, eos, pad):
    width = _width(targets)
    return _left([[bos, *y] for y in targets], width, pad), _left(
        [[*y, eos] for y in targets], width, pad
    )


@wrong("01.teacher_forcing", "target_out is padded at the left")
def out_padded_left(targets, bos, eos, pad):
    width = _width(targets)
    return _rows([[bos, *y] for y in targets], width, pad), _left(
        [[*y, eos] for y in targets], width, pad
    )


@wrong("01.last_states", "the encoder has read padding by then")
def end_of_batch(outputs, lengths):
    return outputs[:, -1]


@wrong("01.last_states", "one step after the last token")
def off_by_one(outputs, lengths):
    return outputs[torch.arange(len(outputs)), lengths % outputs.shape[1]]


@wrong("01.last_states", "one step after the last token")
def off_by_one_crash(outputs, lengths):
    return outputs[torch.arange(len(outputs)), lengths]


@wrong("01.last_states", "one step after the last token, cut off at the end")
def off_by_one_clamped(outputs, lengths):
    return outputs[torch.arange(len(outputs)), lengths.clamp(max=outputs.shape[1] - 1)]


@wrong("01.last_states", "one step after the last token")
def off_by_one_gather(outputs, lengths):
    return outputs.gather(1, lengths[:, None, None].expand(-1, 1, outputs.shape[2])).squeeze(1)


@wrong("01.last_states", "the length of the shortest")
def shortest(outputs, lengths):
    return outputs[:, lengths.min() - 1]


@wrong("01.last_states", "the length of the first source")
def one_length(outputs, lengths):
    return outputs[:, lengths[0] - 1]


@wrong("01.last_states", "these are means")
def means(outputs, lengths):
    real = torch.arange(outputs.shape[1]) < lengths[:, None]
    return (outputs * real[..., None]).sum(1) / lengths[:, None]


@wrong("01.last_states", "one state a source")
def all_pairs(outputs, lengths):
    return outputs[:, lengths - 1]


def _gru(
    x,
    h,
    w_x,
    w_h,
    b_x,
    b_h,
    swap=False,
    chunks=(0, 1, 2),
    candidate=torch.tanh,
    early=False,
    bias=True,
):
    from_x = (x @ w_x.T + b_x).chunk(3, -1)
    from_h = (h @ w_h.T + (b_h if bias else 0)).chunk(3, -1)
    r, z = (torch.sigmoid(from_x[i] + from_h[i]) for i in chunks[:2])
    inner = (r * h) @ w_h.chunk(3)[2].T + b_h.chunk(3)[2] if early else r * from_h[2]
    n = candidate(from_x[2] + inner)
    return z * n + (1 - z) * h if swap else (1 - z) * n + z * h


@wrong("01.gru_step", "the wrong way round")
def swapped_update(*inputs):
    return _gru(*inputs, swap=True)


@wrong("01.gru_step", "reset and update gate are swapped")
def swapped_gates(*inputs):
    return _gru(*inputs, chunks=(1, 0, 2))


@wrong("01.gru_step", "expected tanh")
def relu_candidate(*inputs):
    return _gru(*inputs, candidate=torch.relu)


@wrong("01.gru_step", "here it multiplies U h + b'")
def early_reset(*inputs):
    return _gru(*inputs, early=True)


@wrong("01.gru_step", "outside the reset gate")
def bias_outside(x, h, w_x, w_h, b_x, b_h):
    from_x, from_h, b = (x @ w_x.T + b_x).chunk(3, -1), (h @ w_h.T).chunk(3, -1), b_h.chunk(3)
    r, z = (torch.sigmoid(from_x[i] + from_h[i] + b[i]) for i in range(2))
    return (1 - z) * torch.tanh(from_x[2] + r * from_h[2] + b[2]) + z * h


@wrong("01.gru_step", "bias_hh is not added")
def no_bias(*inputs):
    return _gru(*inputs, bias=False)


def _steps(logits, targets, axis=-1):
    return torch.log_softmax(logits, axis).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


@wrong("01.sequence_log_prob", "the padding is counted")
def counts_padding(logits, targets, pad):
    return _steps(logits, targets).sum(-1)


@wrong("01.sequence_log_prob", "log p is a sum")
def mean_step(logits, targets, pad):
    real = targets != pad
    return (_steps(logits, targets) * real).sum(-1) / real.sum(-1)


@wrong("01.sequence_log_prob", "the loss, not the log-probability")
def negative(logits, targets, pad):
    loss = torch.nn.functional.cross_entropy(logits.mT, targets, ignore_index=pad, reduction="none")
    return loss.sum(-1)


@wrong("01.sequence_log_prob", "over the vocabulary (dim=-1)")
def over_steps(logits, targets, pad):
    return (_steps(logits, targets, 1) * (targets != pad)).sum(-1)


@wrong("01.sequence_log_prob", "expected their logarithm")
def probability(logits, targets, pad):
    return (_steps(logits, targets) * (targets != pad)).sum(-1).exp()


@wrong("01.sequence_log_prob", "id 0 are left out")
def zero_is_pad(logits, targets, pad):
    return (_steps(logits, targets) * (targets != 0)).sum(-1)


@wrong("01.sequence_log_prob", "one number a sequence")
def one_sum(logits, targets, pad):
    return (_steps(logits, targets) * (targets != pad)).sum()


@wrong("01.last_states", "no gradient goes back")
def states_detached(outputs, lengths):
    return outputs[torch.arange(len(outputs)), lengths - 1].detach()


@wrong("01.sequence_log_prob", "no gradient goes back")
def log_prob_of_numbers(logits, targets, pad):
    steps = _steps(logits, targets) * (targets != pad)
    return torch.tensor(steps.sum(-1).tolist())


@wrong("01.gru_step", "no gradient goes back")
def step_detached(*inputs):
    return _gru(*inputs).detach()


@wrong("01.gru_step", "the gradient at h is not")
def old_state_detached(x, h, w_x, w_h, b_x, b_h):
    x_r, x_z, x_n = (x @ w_x.T + b_x).chunk(3, -1)
    h_r, h_z, h_n = (h @ w_h.T + b_h).chunk(3, -1)
    z = torch.sigmoid(x_z + h_z)
    return (1 - z) * torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n) + z * h.detach()
