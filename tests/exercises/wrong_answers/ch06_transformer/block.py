from ..collection import edits

edit = edits("06.growing_stream")
edit("goes through no norm in pre-norm", "4 + 10 * 2", "1")
edit("the word that came in is missing", "4 + 10 * 2", "10 * 2")
edit("that is nine sublayers", "10", "9")
edit("the norms are missing", "4 + 10 * 2", "4 * 3**10")
edit("the residual is missing: the stream", "4 + 10 * 2", "2")
edit("the sublayer doubles that", "10 * 2", "10")
edit("the ten are sublayers, not blocks", "10", "20")
edit("the first feature is not 7", "4 + 10 * 2", "7")

edit = edits("06.one_block_less")
edit("expected one of 'the first'", "the first", "block 1")
edit("an int came back", '"the first"', "0")
edit("None came back", 'return "the first"', "pass")

edit = edits("06.layer_norm")
edit("divided by d - 1", "centred.square().mean(-1, keepdim=True)", "x.var(-1, keepdim=True)")
edit(
    "eps is added to the standard deviation, which is also divided by d - 1",
    "(centred.square().mean(-1, keepdim=True) + eps).sqrt()",
    "(x.std(-1, keepdim=True) + eps)",
)
edit("g and b are not used", "g * centred", "centred", "+ b", "")
edit(
    "it stands inside the root",
    "(centred.square().mean(-1, keepdim=True) + eps).sqrt()",
    "(centred.square().mean(-1, keepdim=True).sqrt() + eps)",
)
edit("eps is not used", "+ eps", "")
edit("run over the positions", "-1", "-2")
edit("run over positions and features", "-1", "(-2, -1)")
edit("that is RMS norm", "centred = x - x.mean(-1, keepdim=True)", "centred = x")
edit("not subtracted above the root", "g * centred", "g * x")
edit("the root is missing", ".sqrt()", "")
edit("the scale g is not used", "g * centred", "centred")
edit("the shift b is not added", "+ b", "")
edit(
    "it is added last",
    "g * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + b",
    "g * (centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + b)",
)
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
edit("the noise comes back as it was", "direction = {}", "return dict(noise)")
edit(
    "the whole matrix is scaled as one: expected each row",
    "d.norm(dim=1, keepdim=True) * w.norm(dim=1, keepdim=True)",
    "d.norm() * w.norm()",
)
edit(
    "the whole matrix is scaled as one, and biases are not 0",
    "if weight.dim() < 2:",
    "if True:",
    "torch.zeros_like(weight)",
    "noise[name] / noise[name].norm() * weight.norm()",
)
edit(
    "columns are scaled",
    "noise[name].flatten(1), weight.flatten(1)",
    "noise[name], weight",
    "dim=1",
    "dim=0",
)
edit(
    "only the last dimension is taken for a filter",
    "noise[name].flatten(1), weight.flatten(1)",
    "noise[name], weight",
    "dim=1",
    "dim=-1",
)
edit(
    "only the second dimension is taken for a filter",
    "noise[name].flatten(1), weight.flatten(1)",
    "noise[name], weight",
)
edit("every row has length 1", "* w.norm(dim=1, keepdim=True)", "")
edit("not brought to length 1 first", "d / d.norm(dim=1, keepdim=True)", "d")
edit("squares of lengths", ".norm(dim=1, keepdim=True)", ".square().sum(1, keepdim=True)")
edit("left as noise", "torch.zeros_like(weight)", "noise[name].clone()")
edit(
    "tensors of one dimension are scaled too",
    "torch.zeros_like(weight)",
    "noise[name] / noise[name].norm() * weight.norm()",
)
edit(
    "biases and norms are in it too",
    "direction[name] = torch.zeros_like(weight)\n            continue",
    "continue",
)
edit(
    "a filter of zeros",
    "* w.norm(dim=1, keepdim=True)",
    "* w.norm(dim=1, keepdim=True).square() / w.norm(dim=1, keepdim=True)",
)
edit("expected a dict", "return direction", "return list(direction.values())")


edit = edits("06.encoder_block")
edit("with pre_norm=True your block is post-norm", "if pre_norm", "if False")
edit("with pre_norm=False your block is pre-norm", "if pre_norm", "if True")
edit("no residual around the attention", "x + attention", "attention")
edit("no residual around the feed-forward network", "x + feed_forward", "feed_forward")
edit("there are no residuals", "x + attention", "attention", "x + feed_forward", "feed_forward")
edit(
    "adds the block's input x",
    "if pre_norm:",
    "before = x\n    if pre_norm:",
    "x + feed_forward",
    "before + feed_forward",
)
edit(
    "the feed-forward network reads the block's input x",
    "return x + feed_forward(norm_2(x))",
    "return x + feed_forward(norm_2(before))",
    "return norm_2(x + feed_forward(x))",
    "return norm_2(x + feed_forward(before))",
    "if pre_norm:",
    "before = x\n    if pre_norm:",
)
edit("the ReLU is missing", "torch.relu(h @ w_1.T + b_1)", "(h @ w_1.T + b_1)")
edit("a GELU stands", "torch.relu(", "torch.nn.functional.gelu(")
edit(
    "the two norms are swapped", "if pre_norm:", "norm_1, norm_2 = norm_2, norm_1\n    if pre_norm:"
)
edit("norm_1 is used twice", "norm_2", "norm_1")
edit("the norms are not used", "norm_1", "", "norm_2", "")
edit(
    "the norm stands on the branch alone",
    "if pre_norm:",
    "if True:",
    "attention(norm_1(x))",
    "norm_1(attention(x))",
    "feed_forward(norm_2(x))",
    "norm_2(feed_forward(x))",
)
edit(
    "the residual adds the normalised stream",
    "x = x + attention(norm_1(x))\n        return x + feed_forward(norm_2(x))",
    "x = norm_1(x)\n        x = norm_2(x + attention(x))\n        return x + feed_forward(x)",
)
edit(
    "reads the stream without a norm",
    "return x + feed_forward(norm_2(x))",
    "return x + feed_forward(x)",
)
edit(
    "no norm at the end of the block",
    "return x + feed_forward(norm_2(x))",
    "return norm_2(x + feed_forward(norm_2(x)))",
)
edit("the biases b_1 and b_2 are not added", "+ b_1", "+ 0 * b_1", "+ b_2", "+ 0 * b_2")
edit("no gradient reaches w_1", "w_1.T", "w_1.T.detach()")
edit("the gradient at x is not", "x + feed_forward", "x.detach() + feed_forward")
edit(
    "changes its argument x in place",
    "x = x + attention(norm_1(x))",
    "x += attention(norm_1(x))",
    "x = norm_1(x + attention(x))",
    "x += attention(x)\n    x = norm_1(x)",
)
