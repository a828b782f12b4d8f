from ..collection import edits

edits(
    "06.stretch_mask",
    ("only begun", "+ width - 1\n", "\n"),
    ("upside down", "<= torch", "> torch"),
    ("hidden from the query at its end", "+ width - 1\n", "+ width\n"),
    ("one position too far", "+ width - 1\n", "+ width - 2\n"),
    ("counted by the width", "* stride +", "* width +"),
    ("the place before stretch c + 1", "+ width - 1\n", "+ stride - 1\n"),
    ("the future is in the keys", "ends[None, :] <=", "0 * ends[None, :] <="),
    ("the shape is", "(n - width) // stride + 1", "-(-n // stride)"),
    (
        "the dtype is",
        "return ends[None, :] <= torch.arange(n)[:, None]",
        "return (ends[None, :] <= torch.arange(n)[:, None]).float()",
    ),
    (
        "newest stretch alone",
        "return ends[None, :] <= torch.arange(n)[:, None]",
        "return (ends <= torch.arange(n)[:, None]) & (ends + stride > torch.arange(n)[:, None])",
    ),
)


edits(
    "06.top_k_gates",
    (
        "no longer add up to 1",
        'torch.softmax(scores.masked_fill(~chosen, float("-inf")), dim=1)',
        "torch.softmax(scores, dim=1) * chosen",
    ),
    ("get exactly 0", 'scores.masked_fill(~chosen, float("-inf"))', "scores"),
    ("k worst", "dim=1).indices", "dim=1, largest=False).indices"),
    (
        "along the positions",
        "scatter(1, scores.topk(k, dim=1)",
        "scatter(0, scores.topk(min(k, len(scores)), dim=0)",
        "), dim=1)",
        "), dim=1).nan_to_num()",
    ),
    (
        "best and softmax are those along the positions",
        "scatter(1, scores.topk(k, dim=1)",
        "scatter(0, scores.topk(min(k, len(scores)), dim=0)",
        "), dim=1)",
        "), dim=0)",
    ),
    (
        "only k - 1 experts",
        'scores.masked_fill(~chosen, float("-inf"))',
        'scores.masked_fill(scores <= scores.topk(k).values[:, -1:], float("-inf"))',
    ),
    ("over the positions", "), dim=1)", "), dim=0).nan_to_num()"),
    (
        "the same gate",
        'torch.softmax(scores.masked_fill(~chosen, float("-inf")), dim=1)',
        "chosen.float() / k",
    ),
    ("a score like any other", 'scores.masked_fill(~chosen, float("-inf"))', "scores * chosen"),
    (
        "scores of the best",
        'torch.softmax(scores.masked_fill(~chosen, float("-inf")), dim=1)',
        "scores * chosen",
    ),
    ("the shape is", 'scores.masked_fill(~chosen, float("-inf"))', "scores.topk(k).values"),
    (
        "no gradient goes back",
        "return torch.softmax(scores.masked",
        "return torch.softmax(scores.detach().masked",
    ),
)
