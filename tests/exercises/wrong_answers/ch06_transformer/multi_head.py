from ..collection import edits, wrong

edit = edits("06.padded_heads")
edit("heads have the masks of other texts", "~real[:, None, None]", "~real[:, None]")
edit("padding has weights", "scores = scores.masked_fill…", "")
edit("no gradient reaches W_Q", "(Y, W_Q)", "(Y, W_Q.detach())")


def _columns(W, num_heads, keep):
    return W.unflatten(1, (num_heads, -1))[:, keep].flatten(1)


def _taken(W_q, W_k, W_v, W_o, num_heads, keep):
    return *(_columns(W, num_heads, keep) for W in (W_q, W_k, W_v)), _columns(
        W_o.T, num_heads, keep
    ).T


edit = edits("06.take_heads_out")
edit(
    "with zeros in it",
    "[:, columns]",
    "* stays",
    "W_o[columns]",
    "W_o * stays[:, None]",
    "return",
    "stays = torch.zeros(len(W_q)).index_fill(0, columns, 1.0)\n    return",
)
edit(
    "rows of W_q were taken out",
    "W_q[:, columns], W_k[:, columns], W_v[:, columns], W_o[columns]",
    "W_q[columns], W_k[columns], W_v[columns], W_o[:, columns]",
)
edit("one column a head", "torch…", "keep")
edit("a head is a group of its rows", "W_o[columns]", "W_o[:, columns]")
edit("a head is a group of its rows", "W_o[columns]", "W_o")
edit("counted from 0", "for i in keep", "for i in [(i - 1) % num_heads for i in keep]")
edit("W_q holds the heads [0, 1", "for i in keep", "for i in range(len(keep))")
edit("every num_heads-th column", "i * width, (i + 1) * width", "i, W_q.shape[1], num_heads")
edit("one order for all four", "W_o[columns]", "W_o[columns.view(-1, width).flip(0).flatten()]")
edit("the heads that stay keep their share", "W_o[columns]", "W_o[columns] * num_heads / len(keep)")
edit(
    "with it the scale of its scores",
    "return W_q[:, columns]",
    "return W_q[:, columns] * (len(keep) / num_heads) ** 0.5",
)
edit("is no head of the layer", "W_v[:, columns]", "W_v.roll(1, 1)[:, columns].roll(1, 1)")


@wrong("06.take_heads_out", "these were to go")
def the_others(W_q, W_k, W_v, W_o, num_heads, keep):
    others = [i for i in range(num_heads) if i not in keep]
    return _taken(W_q, W_k, W_v, W_o, num_heads, others if len(others) == len(keep) else keep)


edit = edits("06.two_looks_by_hand")
edit("goes through its own entry of W^O", "2 * head_1 - 1 * head_2", "head_1 + head_2")
edit("the output is not 3", "2 * head_1 - 1 * head_2", "3")
edit("expected one number", "return 2 * head_1 - 1 * head_2", "return [head_1, head_2]")

edit = edits("06.one_noun_twice")
edit("expected one of", "nearly always", "always")
edit("expected one of", '"nearly always"', "1.0")
edit("None came back", '"nearly always"', "None")
