from ..collection import edits

edit = edits("07.one_look")
edit("divide by the sum", "0.7, 0.4", "7, 4")
edit("after the exchange is not 0.5", "0.4", "0.5")
edit("expected the tuple", "0.7, 0.4", "0.7")


edit = edits("07.turned")
edit("expected one of 'neither'", "the second", "the query")
edit("a float came back", '"the second"', "0.35")
edit("None came back", 'return "the second"', "pass")


edit = edits("07.sequences")
edit("the queries stand in one sequence", "[:, None]…", "", ")[:, :, None]", ")", "dim=2", "dim=1")
edit(
    "expected a one-hot vector",
    "torch.nn.functional.one_hot(labels, ways).to(support.dtype)",
    "labels[..., None].to(support.dtype)",
    "(0, ways)",
    "(0, 1)",
)
edit("tell it how many classes", "labels, ways", "labels", "(0, ways)", "(0, known.shape[-1])")
edit("labels in place", "return", "labels[:, -1] = 0\n    return")
edit("batch and queries are one dimension", "dim=2)", "dim=2).flatten(0, 1)")
edit("no gradient", "dim=2)", "dim=2).detach()")


edit = edits("07.prototypes")
edit("log_softmax is finite", "log_softmax(-1)", "softmax(-1).log()")
edit("no gradient reaches query", "query[:", "query.detach()[:")
edit("the shape is", ".log_softmax(-1)", ".argmax(-1)")
