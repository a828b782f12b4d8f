from ..collection import edits

edit = edits("03.two_hops")
edit("what the second hop finds is added", "12.0", "10.0")
edit(" is not ", "12.0", "3.0")
edit("one number", "12.0", "[12.0]")

edit = edits("03.backwards_story")
edit("expected one of", '"about half"', '"half"')
edit("expected one of", '"about half"', '"none"')
edit("one of 'nearly all'", '"about half"', "0.5")


edit = edits("03.position_encoding")
edit("the shape is", "(scale * embedded).sum(dim=1)", "(j <= J) * embedded")
edit("the 2 is missing", "2 * j", "j")
edit("no gradient goes back", ".sum(dim=1)", ".sum(dim=1).detach()")


edit = edits("03.memory_hops")
edit("−∞, no finite number", 'float("-inf")', "-1e4")
edit("−∞, no finite number", 'float("-inf")', "-1e5")
edit("one row of weights a hop", "torch.stack(weights, dim=1)", "p")
edit("the hops in front", "dim=1)\n    ", "dim=1)\n    ", "stack(weights, dim=1)", "stack(weights)")
edit("no gradient goes back", "return u", "return u.detach()")
edit("the gradient at the question is not", "keys @ u", "keys @ u.detach()")
