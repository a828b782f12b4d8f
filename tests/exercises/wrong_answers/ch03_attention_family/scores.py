from ..collection import edits

edit = edits("03.divisor")
solution = "(16 * 3**2 * 1**2) ** 0.5"
edit("right if query and key both have variance 1", solution, "16**0.5")
edit("divide by its standard deviation", solution, "16 * 3**2")
edit("what adds up are their variances", solution, "16 * 3")
edit("its square is the variance", solution, "(16 * 3) ** 0.5")
edit("16 is the width", solution, "16")
edit("after dividing by the root of the width", solution, "3.0")
edit("by what you divide", solution, "1 / 12")
edit("the divisor is not 5", solution, "(16 + 9) ** 0.5")


edit = edits("03.content_weights")
edit("the strength β is not used", "beta.unsqueeze(-1) * cosine", "cosine")
edit(
    "β comes after the softmax: it belongs inside",
    "torch.softmax(beta.unsqueeze(-1) * cosine",
    "beta.unsqueeze(-1) * torch.softmax(cosine",
)
edit("a larger strength makes the weights sharper", "beta…", "cosine / beta.unsqueeze(-1), dim=-1)")
edit("this is the dot product", "dots / norms.clamp_min(1e-8)", "dots")
edit("the norm of the key is missing", " * key.norm(dim=-1)", "")
edit("its cosine counts as 0", ".clamp_min(1e-8)", "")
edit("a softmax over the keys is missing", "torch…", "beta.unsqueeze(-1) * cosine")
edit(
    "normed over the positions",
    "dots = (query.unsqueeze(1) * key)",
    "key = key / key.norm(dim=1, keepdim=True)\n    dots = (query.unsqueeze(1) * key)",
    "* key.norm(dim=-1)",
    "",
)
edit("expected over the keys (dim=-1)", "cosine, dim=-1", "cosine, dim=0")
edit("opposite directions score -1", "* cosine", "* cosine.abs()")
edit(
    "the key of zeros gets no weight",
    "* cosine",
    '* cosine.masked_fill((key == 0).all(-1), float("-inf"))',
)
edit("averaged over the width", ".sum(dim=-1)", ".mean(dim=-1)")
edit("sums of absolute values", ".norm…", ".abs().sum(-1, keepdim=True) * key.abs().sum(-1)")
edit("these are distances", "* cosine", "* (1 - cosine)")
edit("the cosine is squared", "* cosine", "* cosine**2")
edit("no gradient goes back", "cosine, dim=-1)", "cosine, dim=-1).detach()")
edit("no gradient reaches key", "(1) * key", "(1) * key.detach()", "key.norm", "key.detach().norm")
edit("the gradient at query is not", "query.norm", "query.detach().norm", "key.", "key.detach().")
edit(
    "no gradient goes back",
    "torch.softmax(beta.unsqueeze(-1) * cosine",
    "torch.softmax(torch.from_numpy((beta.unsqueeze(-1) * cosine).numpy())",
)


edit(
    "overflows",
    "torch.softmax(beta.unsqueeze(-1) * cosine, dim=-1)",
    "(beta.unsqueeze(-1) * cosine).exp() / (beta.unsqueeze(-1) * cosine).exp().sum(-1, True)",
)
edit("is replaced later", "dots / norms.clamp_min(1e-8)", "(dots / norms).nan_to_num()")


edit = edits("03.reduced_rank")
edit("the shape is", ":k", ":2")
edit("not their sizes", "(A[:, :k] * sizes[:k])", "A[:, :k]")
edit("used twice", "return U, B[:k]", "return U, sizes[:k, None] * B[:k]")
edit("only the root of the singular values", "* sizes[:k]", "* sizes[:k] ** 0.5")
edit("keep the largest", ":k", "-k:")
edit("U and V are transposed", "(A[:,…", "A[:, :k] * sizes[:k]", "B[:k]", "B[:k].T")
edit("not the nearest", "return U, B[:k]", "return torch.eye(W.shape[0])[:k], W[:k].clone()")
edit("can be as near as", "U, B[:k]", "torch.randn(k, W.shape[0]), torch.randn(k, W.shape[1])")
edit("the shape is", ":k", ":")
edit("expected the tuple (U, V)", "return U, B[:k]", "return U.T @ B[:k]")


edit = edits("03.move_keys")
edit("expected one of 'dot product', 'cosine', 'additive'", "dot product", "scaled dot product")
edit("None came back", 'return "dot product"', '"dot product"')
edit("a list came back", '"dot product"', '["dot product", "cosine"]')
