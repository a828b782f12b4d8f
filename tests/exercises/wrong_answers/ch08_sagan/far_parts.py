from ..collection import edits, wrong

edit = edits("08.kappa_by_hand")
edit("how often each colour comes", "0.5", "0.715 / 0.875")
edit("take chance off", "0.5", "0.84")
edit("what lies above it", "0.5", "0.68")
edit("κ is not 0.4", "0.5", "0.4")


edit = edits("08.shut_the_forger")
edit("expected one of 'far above chance'", "far above", "above")
edit("a float came back", '"far above chance"', "0.9")
edit("None came back", 'return "far above chance"', "pass")


edit = edits("08.exchange_gap")
edit("one number a pair", "score…", "(score(a) + score(b) - score(first) - score(second)).mean()")


@wrong("08.exchange_gap", "changes its argument")
def exchanged_in_place(score, a, b):
    kept = score(a) + score(b)
    middle = a.shape[-1] // 2
    right = a[..., middle:].clone()
    a[..., middle:] = b[..., middle:]
    b[..., middle:] = right
    return kept - score(a) - score(b)


@wrong("08.exchange_gap", "score was called with")
def halves_alone(score, a, b):
    m = a.shape[-1] // 2
    return score(a[..., :m]) - score(b[..., m:])


edit = edits("08.above_chance")
edit("expected 0, not 0/0", "0.0 if e > 1 - 1e-12 else (a - e)", "torch.tensor(a - e)")
edit(
    "one colour and one was not found is -3.403e+38, expected 0",
    "return 0.0 if e > 1 - 1e-12 else (a - e) / (1 - e)",
    "return (torch.tensor(a - e) / (1 - e)).nan_to_num()",
)
edit("where all but one are red is 0", "1 - 1e-12", "0.99")


@wrong("08.who_looks_at_whom", "the weights are used the wrong way round")
def places_as_printed(x, W_f, W_g, W_h, W_v, gamma):
    flat = x.flatten(2)
    weights = ((W_g @ flat).mT @ (W_f @ flat)).softmax(-1)
    return x + gamma * (W_v @ (W_h @ flat @ weights)).view_as(x)


edit = edits("08.who_looks_at_whom")
edit("f and g are exchanged", "keys, queries, values =", "queries, keys, values =")
edit("no gradient reaches W_f", "W_f @", "W_f.detach() @")
