from ..collection import edits

edit = edits("03.fourth_word")
edit("the fourth word is in the sum", "return 2", "return 9")
edit(" is not ", "return 2", "return 3")
edit("one number", "return 2", 'return "two"')

edit = edits("03.longer_trained")
edit("expected one of", "higher", "more")
edit("expected one of", "higher", "larger")
edit("one of 'lower'", '"higher"', "1")

edit = edits("03.words_before")
edit("attends to itself too", "tril(-1)", "tril(0)")
edit("the mask is upside down", "tril(-1)", "triu(1)")
edit("the mask is upside down", "tril(-1)", "triu(0)")
edit("there is no mask", ".tril(-1)", "")
edit("a softmax over nothing but -inf is NaN", ".nan_to_num(0.0)", "")
edit("the first row is a flat share of all words", 'float("-inf")', "-1e9")
edit("the first word attends to itself", ".bool()", ".bool()\n    before[0, 0] = True")
edit("the mask comes after the softmax", ".masked_fill…", "", ".nan_to_num(0.0)", "* before")
edit("not divided by the root", "/ k.shape[-1] ** 0.5", "")
edit("the width of the words: expected that of the keys", "k.shape[-1]", "x.shape[-1]")
edit("over the words that look", "dim=-1", "dim=-2")
edit("queries and keys are swapped", "q, k, v", "k, q, v")
edit("adds up keys", "weights @ v", "weights @ k")
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
    "the old rows and a new one behind them",
    "torch.cat((h_tape, h.unsqueeze(1)), dim=1)",
    "h.unsqueeze(1)",
    "torch.cat((c_tape, c.unsqueeze(1)), dim=1)",
    "c.unsqueeze(1)",
)
edit(
    "expected behind them",
    "h_tape, h.unsqueeze(1)",
    "h.unsqueeze(1), h_tape",
    "c_tape, c.unsqueeze(1)",
    "c.unsqueeze(1), c_tape",
)
edit("the gradient at x is not", "h.unsqueeze", "h.detach().unsqueeze")
edit("the gradient at c_tape is not", "* c_tape", "* c_tape.detach()")
edit(
    "that is an LSTM, without attention",
    "(weights * h_tape)…",
    "torch.nn.functional.pad(h_tape, (0, 0, 1, 0))[:, -1]",
    "(weights * c_tape)…",
    "torch.nn.functional.pad(c_tape, (0, 0, 1, 0))[:, -1]",
)
edit("empty at the first step", "return h_tape", "return h_tape / min(1, h_tape.shape[1] - 1)")
edit("your code stopped with", "inside =", "h_tape[:, -1]\n    inside =")
