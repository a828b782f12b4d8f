from ..collection import edits

edit = edits("07.width")
edit("the logarithm is rounded up", "242", "210")
edit(" is not ", "242", "100")
edit("one number", "242", '"242"')


edit = edits("07.four_mistakes")
edit("its steps are too small", '"D", "B", "C"', '"D", "B", "A"')
edit("it answers no fresh question", '"D", "B", "C"', '"D", "D", "C"')
edit("expected the tuple", '"D", "B", "C"', '"DBC"')


edit = edits("07.dilations")
edit("rounded down", "reach < length", "2 * reach <= length")
edit("one position has nothing to look back to", "return found", "return found or [1]")
edit("wrong dilations", "append(reach)", "append(reach % 100)")


edit = edits("07.steps_back")
edit("the own position is missing", "sorted(steps)", "sorted(steps - {0})")
edit("expected [0], got []", "sorted(steps)", "sorted(steps) if dilations else []")
edit("wrong steps", "sorted(steps)", "sorted(steps)[:200]")


edit = edits("07.dense_block")
edit("the input is missing", "torch.cat…", "f.tanh() * g.sigmoid()")
edit("the first positions are missing", "sigmoid()], dim=-1)", "sigmoid()], dim=-1)[:, dilation:]")
edit("no gradient", "f.tanh() * g.sigmoid()], dim=-1)", "f.tanh() * g.sigmoid()], dim=-1).detach()")
