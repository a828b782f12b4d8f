from ..collection import edits

edit = edits("07.width")
edit("the logarithm is rounded up", "242", "210")
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
edit("looked at alone, and the own position is missing", "{0}", "set()", "s + R…", "R}")
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
edit("the input is missing", "torch.cat…", "f.tanh() * g.sigmoid()")
edit("the first positions are missing", "sigmoid()], dim=-1)", "sigmoid()], dim=-1)[:, dilation:]")
edit("no gradient", "f.tanh() * g.sigmoid()], dim=-1)", "f.tanh() * g.sigmoid()], dim=-1).detach()")
