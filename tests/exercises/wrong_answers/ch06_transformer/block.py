from ..collection import edits

edit = edits("06.growing_stream")
edit("goes through no norm in pre-norm", "4 + 10 * 2", "1")
edit("the word that came in is missing", "4 + 10 * 2", "10 * 2")
edit("the first feature is not 7", "4 + 10 * 2", "7")

edit = edits("06.one_block_less")
edit("expected one of 'the first'", "the first", "block 1")
edit("an int came back", '"the first"', "0")
edit("None came back", 'return "the first"', "pass")

edit = edits("06.layer_norm")
edit("divided by d - 1", "centred.square().mean(-1, keepdim=True)", "x.var(-1, keepdim=True)")
edit(
    "the gradient at x is not",
    "x.mean(-1, keepdim=True)",
    "x.mean(-1, keepdim=True).detach()",
    "(centred.square()",
    "(centred.detach().square()",
)
edit(
    "changes its argument x in place",
    "centred = x - x.mean(-1, keepdim=True)",
    "x -= x.mean(-1, keepdim=True)\n    centred = x",
)


edit = edits("06.filter_direction")
edit(
    "biases and norms are in it too", "direction[name] = torch.zeros_like(weight)\n            ", ""
)
edit("a filter of zeros", "w.norm", "w.norm(dim=1, keepdim=True).square() / w.norm")
edit("expected a dict", "return direction", "return list(direction.values())")


edit = edits("06.encoder_block")
edit("no gradient reaches w_1", "w_1.T", "w_1.T.detach()")
edit("the gradient at x is not", "x + feed_forward", "x.detach() + feed_forward")
edit(
    "changes its argument x in place",
    "x = x + attention(norm_1(x))",
    "x += attention(norm_1(x))",
    "x = norm_1(x + attention(x))",
    "x += attention(x)\n    x = norm_1(x)",
)
