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
edit("added up as they are", "scale * embedded", "(j <= J) * embedded")
edit("the words are counted from 0", "1, words + 1", "words", "1, d + 1", "d", "j <= J", "j < J")
edit("the words j are counted from 0", "arange(1, words + 1)", "arange(words)", "j <= J", "j < J")
edit("the components r are counted from 0", "arange(1, d + 1)", "arange(d)")
edit("J is the padded length", "j / J", "j / words")
edit("the padding is added as well", "* (j <= J)", "")
edit("the two terms are added", "- (r / d)", "+ (r / d)")
edit("the mean of the words", ".sum(dim=1)", ".sum(dim=1) / lengths.unsqueeze(-1)")
edit("the shape is", "(scale * embedded).sum(dim=1)", "(j <= J) * embedded")
edit("one word of the padding is added", "j <= J", "j <= J + 1")
edit("the last word of each sentence is left out", "j <= J", "j < J")
edit("the brackets are wrong: r/d multiplies", "(1 - j / J) - (r / d)", "((1 - j / J) - (r / d))")
edit("the brackets are missing", "(1 - 2 * j / J)", "1 - 2 * j / J")
edit("not (1 − 2j)/J", "(1 - 2 * j / J)", "(1 - 2 * j) / J")
edit("the 2 is missing", "2 * j", "j")
edit("no gradient goes back", ".sum(dim=1)", ".sum(dim=1).detach()")


edit = edits("03.memory_hops")
edit("−∞, no finite number", 'float("-inf")', "-1e4")
edit("−∞, no finite number", 'float("-inf")', "-1e5")
edit("one row of weights a hop", "torch.stack(weights, dim=1)", "p")
edit("the hops in front", "dim=1)\n    ", "dim=1)\n    ", "stack(weights, dim=1)", "stack(weights)")
edit("no gradient goes back", "return u", "return u.detach()")
edit("the gradient at the question is not", "keys @ u", "keys @ u.detach()")
edit(
    "the values of a hop are its keys",
    "return u",
    "u = question + sum((p.unsqueeze(-1) * keys).sum(1) for p, keys in zip(weights, memories))\n"
    "    return u",
)
