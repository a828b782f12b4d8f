import math

from ..collection import edits, wrong

edit = edits("07.one_look")
edit("divide by the sum", "0.7, 0.4", "7, 4")
edit("after the exchange is not 0.5", "0.4", "0.5")
edit("expected the tuple", "0.7, 0.4", "0.7")


edit = edits("07.turned")
edit("expected one of 'neither'", "the second", "the query")
edit("a float came back", '"the second"', "0.35")
edit("None came back", 'return "the second"', "pass")


edit = edits("07.interval")
edit("single episodes spread", "/ len(shares) ** 0.5", "")
edit("division by n", "shares.std()", "shares.std(correction=0)")
edit("the whole width", "1.96", "3.92")
edit("divided by n: expected by its root", "** 0.5", "")
edit("yes-or-no", "shares.std()", "(shares.mean() * (1 - shares.mean())).sqrt()")
edit("the variance is used where its root belongs", "shares.std()", "shares.var()")
edit("an end of the interval", ", 1.96", ", shares.mean() - 1.96")
edit(
    "the two ends of the interval",
    "shares.mean(), 1.96 * shares.std() / len(shares) ** 0.5",
    "tuple(shares.mean() + s * 1.96 * shares.std() / len(shares) ** 0.5 for s in (-1, 1))",
)
edit("the interval of 90 %", "1.96", "1.645")
edit(
    "expected the mean first", "shares…", "1.96 * shares.std() / len(shares) ** 0.5, shares.mean()"
)
edit("the mean is in percent", "shares.mean(), 1.96", "100 * shares.mean(), 196")


@wrong("07.interval", "that is the standard error")
def standard_error(shares):
    return float(shares.mean()), float(shares.std()) / math.sqrt(len(shares))


edit = edits("07.sequences")
edit(
    "one_hot(0) is a label",
    "(query, (0, ways))",
    "(torch.nn.functional.pad(query, (0, 1), value=1.0), (0, ways - 1))",
)
edit("1/N for each class", "(0, ways))", "(0, ways), value=1 / ways)")
edit("a 1 for each class", "(0, ways))", "(0, ways), value=1.0)")
edit("in front of the vectors", "[support, known]", "[known, support]", "(0, ways)", "(ways, 0)")
edit("the query comes first", "[examples, asked]", "[asked, examples]")
edit(
    "episodes are mixed up",
    "[:, None].expand(-1, query.shape[1], -1, -1)",
    ".repeat(query.shape[1], 1, 1).unflatten(0, query.shape[:2])",
)
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
edit("labels in place", "known =", "labels -= labels.min()\n    known =")
edit("class 0 need not occur", "one_hot(labels", "one_hot(labels - labels.min()")
edit("batch and queries are one dimension", "dim=2)", "dim=2).flatten(0, 1)")
edit("no gradient", "dim=2)", "dim=2).detach()")
