from ..collection import edits

edit = edits("02.one_look")
edit("your code stopped with RuntimeError", ".unsqueeze(1)", "")
edit("no gradient reaches v", "@ v", "@ v.detach()")
edit("no gradient goes back", "return context, weights", "return context, weights.detach()")


edit = edits("02.backwards")
edit("expected one of 'nearly all'", "nearly none", "none")
edit("a float came back", '"nearly none"', "0.0")
edit("None came back", 'return "nearly none"', "pass")


edit = edits("02.kept_for_the_way_back")
edit("a target word and a source word: the target words", "pairs * 1000", "pairs / 40 * 1000")
edit("the number of megabytes of the weights is not 0.7", "pairs * 4 / 1e6", "0.7")
edit("expected the tuple", ", pairs * 4 / 1e6", "")


edit = edits("02.bidirectional")
edit("2 × hidden_size wide", "both * real", "sum((both * real).chunk(2, -1))")
edit("no gradient goes back", "both * real", "(both * real).detach()")
edit("the gradient at inputs is not", "reversed(range(n))))", "reversed(range(n))).detach())")


edit("padding positions are not 0", "both * real", "both")


edit = edits("02.project_once")
edit(
    "as projecting the annotations",
    "+ keys",
    "+ annotations @ W_h.T",
    "keys = annotations @ W_h.T\n    ",
    "",
)
edit(
    "projected anew in every step",
    "+ keys",
    "+ torch.tensordot(annotations, W_h, dims=([-1], [-1]))",
    "keys = annotations @ W_h.T\n    ",
    "",
)
edit(
    "projected anew in every step",
    "+ keys",
    "+ (annotations[:, :, None] * W_h).sum(-1)",
    "keys = annotations @ W_h.T\n    ",
    "",
)
edit(
    "no gradient reaches annotations",
    "annotations @ W_h.T",
    "(annotations @ W_h.T).detach() + 0 * W_h.sum()",
)
