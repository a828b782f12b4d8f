from ..collection import edits

edit = edits("03.four_models")
edit("with the wrong mask is not 'D': it comes down", '"C"', '"D"')
edit("begins at 0 is not 'B': its first steps", '"A", "B"', '"B", "A"')
edit("expected the tuple", '"C", "A", "B"', '"CAB"')


edit = edits("03.sentence_losses")
edit("your code stopped with RuntimeError", ".transpose(1, 2)", "")
edit("one loss a sentence", ".sum(dim=1)", ".sum()", "/ lengths", "/ lengths.sum()")
edit("no gradient goes back", "/ lengths", ".detach() / lengths")


edit = edits("03.words_before")
edit("a softmax over nothing but -inf is NaN", ".nan_to_num(0.0)", "")
edit("returns (weights, context)", "weights @ v, weights", "weights, weights @ v")
edit("no gradient goes back", "weights @ v", "(weights @ v).detach()")
edit("no gradient reaches W_q", "weights @ v", "weights.detach() @ v")
edit(
    "the gradient at x is not finite",
    '.masked_fill(~before, float("-inf"))',
    "",
    "torch.softmax(scores, dim=-1)",
    "(scores.exp() * before / (scores.exp() * before).sum(-1, keepdim=True))",
)
edit(  # sigmoid keeps its result for the way back
    "a tensor is changed in place after it was used",
    'float("-inf")',
    "-1e9",
    ".nan_to_num(0.0)",
    ".logit().sigmoid()\n    weights[:, 0] = 0.0",
)


edit = edits("03.lstmn_step")
edit(
    "the old rows and a new one after them",
    "torch.cat((h_tape, h.unsqueeze(1)), dim=1)",
    "h.unsqueeze(1)",
    "torch.cat((c_tape, c.unsqueeze(1)), dim=1)",
    "c.unsqueeze(1)",
)
edit(
    "expected after them",
    "h_tape, h.unsqueeze(1)",
    "h.unsqueeze(1), h_tape",
    "c_tape, c.unsqueeze(1)",
    "c.unsqueeze(1), c_tape",
)
edit("the gradient at x is not", "h.unsqueeze", "h.detach().unsqueeze")
edit("the gradient at c_tape is not", "* c_tape", "* c_tape.detach()")
edit("empty at the first step", "return h_tape", "return h_tape / min(1, h_tape.shape[1] - 1)")
edit("your code stopped with", "inside =", "h_tape[:, -1]\n    inside =")
