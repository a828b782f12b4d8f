from ..collection import edits

edit = edits("07.width")
edit("the logarithm is rounded up", "242", "210")
edit("natural logarithm", "242", "178")
edit("one layer too many", "242", "274")
edit("more than one dense block", "242", "50")
edit("the keys are only compared", "242", "246")
edit("only the sum of values is", "242", "254")
edit("the input is missing", "242", "232")
edit("the attention block is missing", "242", "234")
edit("adds 16, not 32", "242", "466")
edit("nothing is overwritten", "242", "112")
edit("the first TC block is missing", "242", "130")
edit(" is not ", "242", "100")
edit("one number", "242", '"242"')


edit = edits("07.begins_with_two")
edit("expected one of", '"less than a third"', '"one in seven"')
edit("expected one of", '"less than a third"', '"all"')
edit("one of 'less than", '"less than a third"', "0.2")


edit = edits("07.dilations")
edit(
    "begins with 2",
    "found.append(reach)\n        reach *= 2",
    "reach *= 2\n        found.append(reach)",
)
edit("the natural logarithm", "reach < length", "2.718281828459045 ** len(found) < length")
edit("rounded down", "reach < length", "2 * reach <= length")
edit("one layer too many", "reach < length", "reach <= length")
edit("all dilations are 1", "append(reach)", "append(1)")
edit("turned round", "return found", "return found[::-1]")
edit("these are the exponents", "append(reach)", "append(len(found))")
edit("grow by 1", "append(reach)", "append(len(found) + 1)")
edit("one position has nothing to look back to", "return found", "return found or [1]")


edit = edits("07.steps_back")
edit("the own position is missing", "sorted(steps)", "sorted(steps - {0})")
edit("each layer is looked at alone: what", "{s + R for s in steps}", "{R}")
edit(
    "looked at alone, and the own position is missing",
    "steps = {0}",
    "steps = set()",
    "{s + R for s in steps}",
    "{R}",
)
edit("that is how far it reaches", "sorted(steps)", "list(range(max(steps) + 1))")
edit(
    "a step that two ways lead to is listed twice",
    "steps = {0}",
    "steps = [0]",
    "steps |= {s + R for s in steps}",
    "steps = steps + [s + R for s in steps]",
)
edit("none stays where it is", "{s + R for s in steps}", "{max(steps) + R}")
edit("expected [0], got []", "sorted(steps)", "sorted(steps) if dilations else []")
edit("ascending order was asked for", "sorted(steps)", "sorted(steps, reverse=True)")
edit("no minus", "sorted(steps)", "sorted(-s for s in steps)")


edit = edits("07.dense_block")
edit(
    "the input is missing",
    "torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)",
    "f.tanh() * g.sigmoid()",
)
edit("expected behind it", "[x, f.tanh() * g.sigmoid()]", "[f.tanh() * g.sigmoid(), x]")
edit(
    "it reads later positions",
    "(0, 0, dilation, 0))[:, : x.shape[1]]",
    "(0, 0, 0, dilation))[:, dilation:]",
)
edit(
    "comes in at its beginning",
    "torch.nn.functional.pad(x, (0, 0, dilation, 0))[:, : x.shape[1]]",
    "x.roll(dilation, 1)",
)
edit(
    "the first position is repeated",
    "torch.nn.functional.pad(x, (0, 0, dilation, 0))[:, : x.shape[1]]",
    "x[:, (torch.arange(x.shape[1]) - dilation).clamp_min(0)]",
)
edit("the dilation is not used", "dilation", "1")
edit("change places: the first D columns", "f, g =", "g, f =")
edit("W_far and W_near change places", "before @ W_far + x @ W_near", "before @ W_near + x @ W_far")
edit("there is no gate: tanh(f) alone", "* g.sigmoid()", "")
edit("there is no tanh", "f.tanh()", "f")
edit("the gate is a tanh", "g.sigmoid()", "g.tanh()")
edit("are added", "* g.sigmoid()", "+ g.sigmoid()")
edit("belongs to f alone", "f.tanh() * g.sigmoid()", "(f * g.sigmoid()).tanh()")
edit(
    "the first R positions find nothing",
    "f.tanh() * g.sigmoid()",
    "f.tanh() * g.sigmoid() * (torch.arange(x.shape[1]) >= dilation)[:, None]",
)
edit(
    "the first positions are missing",
    "torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)",
    "torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)[:, dilation:]",
)
edit(
    "no gradient",
    "return torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)",
    "return torch.cat([x, f.tanh() * g.sigmoid()], dim=-1).detach()",
)
