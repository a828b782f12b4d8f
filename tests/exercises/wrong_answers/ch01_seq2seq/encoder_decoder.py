import torch

from ..collection import edits, wrong


def _rows(rows, width, pad):
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])


def _width(targets):
    return max(len(target) for target in targets) + 1


edit = edits("01.cost_of_a_translator")
edit("a GRU has three matrices", "3 * 512 * (", "512 * (")
edit("the way back is missing", "* 3 * forward", "* forward")
edit("looked up, not multiplied", "(enc + dec", "(embeddings + enc + dec")
edit("the number of minutes is not 60", "5 * 500_000 * 3 * forward / 1e12 / 60", "60")


edit = edits("01.eight_digits")
edit("expected one of 'eight'", '"seven"', '"7"')
edit("an int came back", '"seven"', "7")
edit("None came back", 'return "seven"', "pass")


edit = edits("01.teacher_forcing")
edit("expected the tuple (target_in, target_out)", "target_in, target_out", "target_in")


@wrong("01.teacher_forcing", "takes m + 1 steps")
def both_ends(targets, bos, eos, pad):
    full = _rows([[bos, *y, eos] for y in targets], _width(targets) + 1, pad)
    return full, full


@wrong("01.teacher_forcing", "changes its argument targets in place")
def appends(targets, bos, eos, pad):
    width = _width(targets)
    target_in = _rows([[bos, *y] for y in targets], width, pad)
    for y in targets:
        y.append(eos)
    return target_in, _rows(targets, width, pad)


edit = edits("01.last_states")
edit("one step after the last token", "lengths - 1", "lengths")
edit("one state a source", "torch.arange(len(outputs))", ":")
edit("with batch = 1: the states: the shape is", "lengths - 1]", "lengths - 1].squeeze()")
edit("no gradient goes back", "lengths - 1]", "lengths - 1].detach()")


@wrong("01.last_states", "one step after the last token")
def off_by_one_gather(outputs, lengths):
    return outputs.gather(1, lengths[:, None, None].expand(-1, 1, outputs.shape[2])).squeeze(1)


edit = edits("01.gru_step")
edit("the wrong way round", "(1 - z) * candidate + z * h", "z * candidate + (1 - z) * h")
edit("no gradient goes back", "(1 - z)…", "((1 - z) * candidate + z * h).detach()")
edit("the gradient at h is not", "z * h", "z * h.detach()")


edit = edits("01.sequence_log_prob")
edit("one number a sequence", ".sum(dim=-1)", ".sum()")
edit("right for other sizes, but with", ".squeeze(-1)", ".squeeze()")
edit("where a logit is", "torch…", "(torch.softmax(logits, dim=-1) + 1e-8).log()")
edit(
    "no gradient goes back",
    "return steps.masked_fill(targets == pad, 0.0).sum(dim=-1)",
    "return torch.tensor(steps.masked_fill(targets == pad, 0.0).sum(dim=-1).tolist())",
)
