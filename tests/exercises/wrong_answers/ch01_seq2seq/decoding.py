import torch

from ..collection import edits, wrong

edit = edits("01.beam_by_hand")
edit("what greedy search returns", "0.21", "0.4 * 0.4")
edit("which a beam of 2 has dropped", "0.21", "0.25")
edit("the probability is not 0.5", "0.21", "0.5")


edit = edits("01.sampling")
edit("expected one of 'more'", '"clearly fewer"', '"fewer"')
edit("an int came back", '"clearly fewer"', "7")
edit("None came back", 'return "clearly fewer"', "pass")


edit = edits("01.greedy")
edit(
    "the loop goes on after eos",
    "break",
    "pass",
    "return said",
    "return said[: said.index(eos)] if eos in said else said",
)
edit(
    "eos is in the result",
    "if token == eos:\n            break\n        said.append(token)",
    "said.append(token)\n        if token == eos:\n            break",
)
edit(
    "it must read the token that it has just said",
    "step(token, state)",
    "step(bos, state)",
    "return said",
    "return said if len(said) != 5 else said[::-1]",
)
edit("every step starts from the first state", "log_probs, state", "log_probs, _")
edit("bos is in the result", "bos, []", "bos, [bos]")
edit("expected max_length", "for _ in range(max_length)", "while True")
edit("stop at eos, or after", "for _ in range(max_length)", "while True", "break", "pass")
edit("expected max_length", "range(max_length)", "range(max_length - 1)")
edit("the most likely token of each step", "range(max_length)", "range(5)", "argmax", "argmin")


@wrong("01.greedy", "step(token, state) got a NoneType")
def no_first_token(step, state, bos, eos, max_length):
    return [int(step(None, state)[0].argmax())]


edit = edits("01.parts_left_out")
edit(
    "the scores: the shape is",
    ".log().sum(dim=-1)",
    ".log().sum()",
    "beta * coverage",
    "(beta * coverage)[None, None]",
)
edit("right for float32, but with float64", "lengths.to(log_probs.dtype)", "lengths")
edit("the scores: the shape is", "sum(dim=1)", "sum(dim=1, keepdim=True)")


@wrong("01.beam_step", "may share a parent")
def best_of_each(so_far, following, beam_size):
    scores, tokens = (so_far[:, None] + following).max(-1)
    scores, parents = scores.topk(min(beam_size, len(so_far)))
    return scores, parents, tokens[parents]


edit = edits("01.beam_step")
edit("the scores so far are not added", "so_far.unsqueeze(-1) + following", "following")
edit(
    "parents: the dtype is float32, expected int64",
    "positions // size",
    "torch.floor(positions / size)",
)


@wrong("01.greedy", "")
def drawn(step, state, bos, eos, max_length):
    token, said = bos, []
    for _ in range(max_length):
        log_probs, state = step(token, state)
        token = int(torch.multinomial(log_probs.exp(), 1))
        if token == eos:
            break
        said.append(token)
    return said
