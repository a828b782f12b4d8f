from ..collection import edits, wrong

edits(
    "01.greedy",
    (
        "the loop goes on after eos",
        "break",
        "pass",
        "return said",
        "return said[: said.index(eos)] if eos in said else said",
    ),
    (
        "eos is in the result",
        "if token == eos:\n            break\n        said.append(token)",
        "said.append(token)\n        if token == eos:\n            break",
    ),
    (
        "it must read the token that it has just said",
        "step(token, state)",
        "step(bos, state)",
        "return said",
        "return said if len(said) != 5 else said[::-1]",
    ),
    ("every step starts from the first state", "log_probs, state", "log_probs, _"),
    ("bos is in the result", "bos, []", "bos, [bos]"),
    ("stop at eos, or after max_length tokens", "for _ in range(max_length)", "while True"),
    ("expected max_length = 7", "range(max_length)", "range(max_length - 1)"),
    ("the most likely token of each step", "range(max_length)", "range(5)", "argmax", "argmin"),
)


@wrong("01.greedy", "step(token, state) got a NoneType")
def no_first_token(step, state, bos, eos, max_length):
    return [int(step(None, state)[0].argmax())]


edits(
    "01.best_hypothesis",
    ("that punishes length twice", "pair[1] /", "pair[1] *"),
    ("not normalized", "/ len(pair[0]) ** alpha", ""),
    ("divided by the whole length", "** alpha", ""),
    ("the worst hypothesis is picked", "max(", "min("),
    ("is a tuple, expected a whole number", "tokens, _ = max", "tokens = sorted"),
    ("divided by alpha · length", "len(pair[0]) ** alpha", "(alpha * len(pair[0]))"),
    ("return the tokens alone", "tokens, _ =", "tokens ="),
)


@wrong("01.beam_step", "may share a parent")
def best_of_each(so_far, following, beam_size):
    scores, tokens = (so_far[:, None] + following).max(-1)
    scores, parents = scores.topk(min(beam_size, len(so_far)))
    return scores, parents, tokens[parents]


edits(
    "01.beam_step",
    ("the scores so far are not added", "so_far.unsqueeze(-1) + following", "following"),
    (
        "parents is index % K",
        "positions // size, positions % size",
        "positions % len(so_far), positions // len(so_far)",
    ),
    (
        "parents holds the tokens",
        "positions // size, positions % size",
        "positions % size, positions // size",
    ),
    (
        "from worst to best",
        "return scores, positions // size, positions % size",
        "return tuple(p.flip(0) for p in (scores, positions // size, positions % size))",
    ),
    ("tokens holds indices into all", "positions % size", "positions"),
    ("add two logarithms", "following\n", "following.exp()\n"),
    (
        "parents: the dtype is float32, expected int64",
        "positions // size",
        "torch.floor(positions / size)",
    ),
    ("is index // V", "following.shape[-1]", "len(so_far)"),
    ("the token is index % V", "positions % size", "positions % len(so_far)"),
    ("log p is multiplied", "+ following", "* following"),
)
