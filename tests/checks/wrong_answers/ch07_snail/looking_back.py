from ..collection import edits

edits(
    "07.dilations",
    (
        "begins with 2",
        "found.append(reach)\n        reach *= 2",
        "reach *= 2\n        found.append(reach)",
    ),
    ("the natural logarithm", "reach < length", "2.718281828459045 ** len(found) < length"),
    ("rounded down", "reach < length", "2 * reach <= length"),
    ("one layer too many", "reach < length", "reach <= length"),
    ("all dilations are 1", "append(reach)", "append(1)"),
    ("turned round", "return found", "return found[::-1]"),
    ("these are the exponents", "append(reach)", "append(len(found))"),
    ("grow by 1", "append(reach)", "append(len(found) + 1)"),
    ("one position has nothing to look back to", "return found", "return found or [1]"),
)


edits(
    "07.steps_back",
    ("the own position is missing", "sorted(steps)", "sorted(steps - {0})"),
    ("each layer is looked at alone: what", "{s + R for s in steps}", "{R}"),
    (
        "looked at alone, and the own position is missing",
        "steps = {0}",
        "steps = set()",
        "{s + R for s in steps}",
        "{R}",
    ),
    ("that is how far it reaches", "sorted(steps)", "list(range(max(steps) + 1))"),
    (
        "a step that two ways lead to is listed twice",
        "steps = {0}",
        "steps = [0]",
        "steps |= {s + R for s in steps}",
        "steps = steps + [s + R for s in steps]",
    ),
    ("none stays where it is", "{s + R for s in steps}", "{max(steps) + R}"),
    ("expected [0], got []", "sorted(steps)", "sorted(steps) if dilations else []"),
    ("ascending order was asked for", "sorted(steps)", "sorted(steps, reverse=True)"),
    ("no minus", "sorted(steps)", "sorted(-s for s in steps)"),
)


edits(
    "07.dense_block",
    (
        "the input is missing",
        "torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)",
        "f.tanh() * g.sigmoid()",
    ),
    ("expected behind it", "[x, f.tanh() * g.sigmoid()]", "[f.tanh() * g.sigmoid(), x]"),
    (
        "it reads later positions",
        "(0, 0, dilation, 0))[:, : x.shape[1]]",
        "(0, 0, 0, dilation))[:, dilation:]",
    ),
    (
        "comes in at its beginning",
        "torch.nn.functional.pad(x, (0, 0, dilation, 0))[:, : x.shape[1]]",
        "x.roll(dilation, 1)",
    ),
    (
        "the first position is repeated",
        "torch.nn.functional.pad(x, (0, 0, dilation, 0))[:, : x.shape[1]]",
        "x[:, (torch.arange(x.shape[1]) - dilation).clamp_min(0)]",
    ),
    ("the dilation is not used", "dilation", "1"),
    ("change places: the first D columns", "f, g =", "g, f ="),
    (
        "W_far and W_near change places",
        "before @ W_far + x @ W_near",
        "before @ W_near + x @ W_far",
    ),
    ("there is no gate: tanh(f) alone", "* g.sigmoid()", ""),
    ("there is no tanh", "f.tanh()", "f"),
    ("the gate is a tanh", "g.sigmoid()", "g.tanh()"),
    ("are added", "* g.sigmoid()", "+ g.sigmoid()"),
    ("belongs to f alone", "f.tanh() * g.sigmoid()", "(f * g.sigmoid()).tanh()"),
    (
        "the first R positions find nothing",
        "f.tanh() * g.sigmoid()",
        "f.tanh() * g.sigmoid() * (torch.arange(x.shape[1]) >= dilation)[:, None]",
    ),
    (
        "the first positions are missing",
        "torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)",
        "torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)[:, dilation:]",
    ),
    (
        "no gradient",
        "return torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)",
        "return torch.cat([x, f.tanh() * g.sigmoid()], dim=-1).detach()",
    ),
)
