from ..collection import edits

edit = edits("06.harder_squeezed")
edit("expected one of 'more'", '"more"', '"better"')
edit("an int came back", '"more"', "6")
edit("None came back", 'return "more"', "pass")

edit = edits("06.stretch_mask")
edit("the future is in the keys", "ends[None, :] <=", "0 * ends[None, :] <=")
edit("the shape is", "(n - width) // stride + 1", "-(-n // stride)")
edit("the dtype is", "return…", "return (ends[None, :] <= torch.arange(n)[:, None]).float()")


edit = edits("06.even_loads")
edit("padding counts as words", "scores[real]", "scores.flatten(0, 1)")
edit("the shape is", ".sum()", "")
edit("no gradient goes back", "scores[real]", "scores.detach()[real]")


edit = edits("06.top_k_gates")
edit("scores of the best", "torch.softmax…", "scores * chosen")
edit("the shape is", 'scores.masked_fill(~chosen, float("-inf"))', "scores.topk(k).values")
edit("no gradient goes back", "scores.masked", "scores.detach().masked")
