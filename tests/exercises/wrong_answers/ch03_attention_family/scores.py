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


edit = edits("03.reduced_rank")
edit("the shape is", ":k", ":2")
edit("U and V are transposed", "(A[:,…", "A[:, :k] * sizes[:k]", "B[:k]", "B[:k].T")
edit("can be as near as", "U, B[:k]", "torch.randn(k, W.shape[0]), torch.randn(k, W.shape[1])")
edit("the shape is", ":k", ":")
edit("expected the tuple (U, V)", "return U, B[:k]", "return U.T @ B[:k]")


edit = edits("03.move_keys")
edit("expected one of 'dot product', 'cosine', 'additive'", "dot product", "scaled dot product")
edit("None came back", 'return "dot product"', '"dot product"')
edit("a list came back", '"dot product"', '["dot product", "cosine"]')
