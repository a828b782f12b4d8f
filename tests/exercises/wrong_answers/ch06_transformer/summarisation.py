from ..collection import edits

edit = edits("06.stretches_on_paper")
edit("its last word comes after word 50", "12", "13")
edit("counted from 0", "12", "11")
edit("is not 25", "12", "25")

edit = edits("06.harder_squeezed")
edit("expected one of 'more'", '"more"', '"better"')
edit("an int came back", '"more"', "6")
edit("None came back", 'return "more"', "pass")

edit = edits("06.stretch_mask")
edit("only begun", "+ width - 1\n", "\n")
edit("upside down", "<= torch", "> torch")
edit("hidden from the query at its end", "+ width - 1\n", "+ width\n")
edit("one position too far", "+ width - 1\n", "+ width - 2\n")
edit("counted by the width", "* stride +", "* width +")
edit("the place before stretch c + 1", "+ width - 1\n", "+ stride - 1\n")
edit("the future is in the keys", "ends[None, :] <=", "0 * ends[None, :] <=")
edit("the shape is", "(n - width) // stride + 1", "-(-n // stride)")
edit("the dtype is", "return…", "return (ends[None, :] <= torch.arange(n)[:, None]).float()")
edit(
    "newest stretch alone",
    "return ends[None, :] <= torch.arange(n)[:, None]",
    "return (ends <= torch.arange(n)[:, None]) & (ends + stride > torch.arange(n)[:, None])",
)


edit = edits("06.top_k_gates")
edit("no longer add up to 1", '.masked_fill(~chosen, float("-inf")), dim=1)', ", dim=1) * chosen")
edit("get exactly 0", 'scores.masked_fill(~chosen, float("-inf"))', "scores")
edit("k worst", "dim=1).indices", "dim=1, largest=False).indices")
edit(
    "along the positions",
    "scatter(1, scores.topk(k, dim=1)",
    "scatter(0, scores.topk(min(k, len(scores)), dim=0)",
    "), dim=1)",
    "), dim=1).nan_to_num()",
)
edit(
    "best and softmax are those along the positions",
    "scatter(1, scores.topk(k, dim=1)",
    "scatter(0, scores.topk(min(k, len(scores)), dim=0)",
    "), dim=1)",
    "), dim=0)",
)
edit("only k - 1 experts", "~chosen, float", "scores <= scores.topk(k).values[:, -1:], float")
edit("over the positions", "), dim=1)", "), dim=0).nan_to_num()")
edit("the same gate", "torch.softmax…", "chosen.float() / k")
edit("a score like any other", 'scores.masked_fill(~chosen, float("-inf"))', "scores * chosen")
edit("scores of the best", "torch.softmax…", "scores * chosen")
edit("the shape is", 'scores.masked_fill(~chosen, float("-inf"))', "scores.topk(k).values")
edit("no gradient goes back", "scores.masked", "scores.detach().masked")
