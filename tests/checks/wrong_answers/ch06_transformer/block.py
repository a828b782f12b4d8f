from ..collection import edits

edits(
    "06.layer_norm",
    ("divided by d - 1", "centred.square().mean(-1, keepdim=True)", "x.var(-1, keepdim=True)"),
    (
        "eps is added to the standard deviation, which is also divided by d - 1",
        "(centred.square().mean(-1, keepdim=True) + eps).sqrt()",
        "(x.std(-1, keepdim=True) + eps)",
    ),
    ("g and b are not used", "g * centred", "centred", "+ b", ""),
    (
        "it stands inside the root",
        "(centred.square().mean(-1, keepdim=True) + eps).sqrt()",
        "(centred.square().mean(-1, keepdim=True).sqrt() + eps)",
    ),
    ("eps is not used", "+ eps", ""),
    ("run over the positions", "-1", "-2"),
    ("run over positions and features", "-1", "(-2, -1)"),
    ("that is RMS norm", "centred = x - x.mean(-1, keepdim=True)", "centred = x"),
    ("not subtracted above the root", "g * centred", "g * x"),
    ("the root is missing", ".sqrt()", ""),
    ("the scale g is not used", "g * centred", "centred"),
    ("the shift b is not added", "+ b", ""),
    (
        "it is added last",
        "g * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + b",
        "g * (centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + b)",
    ),
    (
        "the gradient at x is not",
        "x.mean(-1, keepdim=True)",
        "x.mean(-1, keepdim=True).detach()",
        "(centred.square()",
        "(centred.detach().square()",
    ),
    (
        "changes its argument x in place",
        "centred = x - x.mean(-1, keepdim=True)",
        "x -= x.mean(-1, keepdim=True)\n    centred = x",
    ),
)


edits(
    "06.filter_direction",
    ("the noise comes back as it was", "direction = {}", "return dict(noise)"),
    (
        "the whole matrix is scaled as one: expected each row",
        "d.norm(dim=1, keepdim=True) * w.norm(dim=1, keepdim=True)",
        "d.norm() * w.norm()",
    ),
    (
        "the whole matrix is scaled as one, and biases are not 0",
        "if weight.dim() < 2:",
        "if True:",
        "torch.zeros_like(weight)",
        "noise[name] / noise[name].norm() * weight.norm()",
    ),
    (
        "columns are scaled",
        "noise[name].flatten(1), weight.flatten(1)",
        "noise[name], weight",
        "dim=1",
        "dim=0",
    ),
    (
        "only the last dimension is taken for a filter",
        "noise[name].flatten(1), weight.flatten(1)",
        "noise[name], weight",
        "dim=1",
        "dim=-1",
    ),
    (
        "only the second dimension is taken for a filter",
        "noise[name].flatten(1), weight.flatten(1)",
        "noise[name], weight",
    ),
    ("every row has length 1", "* w.norm(dim=1, keepdim=True)", ""),
    ("not brought to length 1 first", "d / d.norm(dim=1, keepdim=True)", "d"),
    ("squares of lengths", ".norm(dim=1, keepdim=True)", ".square().sum(1, keepdim=True)"),
    ("left as noise", "torch.zeros_like(weight)", "noise[name].clone()"),
    (
        "tensors of one dimension are scaled too",
        "torch.zeros_like(weight)",
        "noise[name] / noise[name].norm() * weight.norm()",
    ),
    (
        "biases and norms are in it too",
        "direction[name] = torch.zeros_like(weight)\n            continue",
        "continue",
    ),
    (
        "a filter of zeros",
        "w.norm(dim=1, keepdim=True))",
        "w.norm(dim=1, keepdim=True).square() / w.norm(dim=1, keepdim=True))",
    ),
    ("expected a dict", "return direction", "return list(direction.values())"),
)


edits(
    "06.encoder_block",
    ("with pre_norm=True your block is post-norm", "if pre_norm", "if False"),
    ("with pre_norm=False your block is pre-norm", "if pre_norm", "if True"),
    ("no residual around the attention", "x + attention", "attention"),
    ("no residual around the feed-forward network", "x + feed_forward", "feed_forward"),
    ("there are no residuals", "x + attention", "attention", "x + feed_forward", "feed_forward"),
    (
        "adds the block's input x",
        "if pre_norm:",
        "before = x\n    if pre_norm:",
        "x + feed_forward",
        "before + feed_forward",
    ),
    (
        "the feed-forward network reads the block's input x",
        "return x + feed_forward(norm_2(x))",
        "return x + feed_forward(norm_2(before))",
        "return norm_2(x + feed_forward(x))",
        "return norm_2(x + feed_forward(before))",
        "if pre_norm:",
        "before = x\n    if pre_norm:",
    ),
    ("the ReLU is missing", "torch.relu(h @ w_1.T + b_1)", "(h @ w_1.T + b_1)"),
    (
        "the two norms are swapped",
        "if pre_norm:",
        "norm_1, norm_2 = norm_2, norm_1\n    if pre_norm:",
    ),
    ("norm_1 is used twice", "norm_2", "norm_1"),
    ("the norms are not used", "norm_1", "", "norm_2", ""),
    (
        "the norm stands on the branch alone",
        "if pre_norm:",
        "if True:",
        "attention(norm_1(x))",
        "norm_1(attention(x))",
        "feed_forward(norm_2(x))",
        "norm_2(feed_forward(x))",
    ),
    (
        "the residual adds the normalised stream",
        "x = x + attention(norm_1(x))\n        return x + feed_forward(norm_2(x))",
        "x = norm_1(x)\n        x = norm_2(x + attention(x))\n        return x + feed_forward(x)",
    ),
    (
        "reads the stream without a norm",
        "return x + feed_forward(norm_2(x))",
        "return x + feed_forward(x)",
    ),
    (
        "no norm at the end of the block",
        "return x + feed_forward(norm_2(x))",
        "return norm_2(x + feed_forward(norm_2(x)))",
    ),
    ("the biases b_1 and b_2 are not added", "+ b_1", "+ 0 * b_1", "+ b_2", "+ 0 * b_2"),
    ("no gradient reaches w_1", "w_1.T", "w_1.T.detach()"),
    ("the gradient at x is not", "x + feed_forward", "x.detach() + feed_forward"),
    (
        "changes its argument x in place",
        "x = x + attention(norm_1(x))",
        "x += attention(norm_1(x))",
        "x = norm_1(x + attention(x))",
        "x += attention(x)\n    x = norm_1(x)",
    ),
)
