import torch

from ..collection import edits, wrong

edit = edits("03.one_draw")
edit("without the baseline", "0.125", "-0.25")
edit(" is not ", "0.125", "1.0")
edit("one number", "0.125", '"up"')

edit = edits("03.strong_pull")
edit("expected one of", "nearly all", "all")
edit("expected one of", "nearly all", "most")
edit("one of 'nearly all'", '"nearly all"', "1.0")

edit = edits("03.gated_context")
edit("the gate is missing", "return beta *", "return")
edit("a sigmoid is missing", "torch.sigmoid(state @ w + b)", "(state @ w + b)")
edit("a tanh stands where", "torch.sigmoid", "torch.tanh")
edit("a ReLU stands where", "torch.sigmoid", "torch.relu")
edit("b is not used", "w + b", "w")
edit("not 1 − β", "return beta", "return (1 - beta)")
edit("one number a channel", "(state @ w + b).unsqueeze(-1)", "(state * w + b)")
edit("the softmax is missing", "torch.softmax(scores, dim=-1)", "scores")
edit("runs over the batch", "scores, dim=-1", "scores, dim=0")
edit("over the channels", "alpha.unsqueeze(-1) *", "features.softmax(-1) *")
edit("the weights are not used", "(alpha.unsqueeze(-1) * features).sum", "features.mean")
edit(
    "that is hard attention", "(alpha…", "features[torch.arange(len(features)), scores.argmax(-1)]"
)
edit("became a mean", ".sum(dim=1)", ".mean(dim=1)")
edit("your code stopped with", "(state @ w + b).unsqueeze(-1)", "(state @ w + b)")
edit("the shape is", "beta *…", "beta.unsqueeze(-1) * alpha.unsqueeze(-1) * features")
edit("no gradient goes back", "(dim=1)", "(dim=1).detach()", "return beta", "return beta.detach()")
edit("no gradient reaches the scores", "softmax(scores", "softmax(scores.detach()")
edit("no gradient reaches the state", "return beta", "return beta.detach()")


def _real(weights, lengths):
    return (torch.arange(weights.shape[1]) < lengths[:, None])[..., None]


edit = edits("03.coverage")
edit("the padded steps are added up too", "weights * real", "weights")
edit("one padded step is left in", "lengths.unsqueeze", "(lengths + 1).unsqueeze")
edit("the last real step is left out", "lengths.unsqueeze", "(lengths - 1).unsqueeze")
edit("the absolute value", ".square()", ".abs()")
edit("the mean over the regions", ".sum(dim=-1)", ".mean(dim=-1)")
edit("averaged over the steps", ".sum(dim=1)", ".sum(dim=1) / lengths.unsqueeze(-1)")
edit("one number a caption", ".sum(dim=-1)", ".sum()")
edit("and 0 in the padding", "real).sum(dim=1)", "real).sum(dim=2)")
edit("this is (1 − length)²", ".sum(dim=1)", ".sum(dim=(1, 2))", "square().sum(dim=-1)", "square()")
edit("added up before the square", ".square().sum(dim=-1)", ".sum(dim=-1).square()")
edit("its equal share of the steps", "1 - seen", "lengths.unsqueeze(-1) / weights.shape[2] - seen")
edit("those above 1 pay too", ".square()", ".relu().square()")
edit("no gradient goes back", ".sum(dim=-1)", ".sum(dim=-1).detach()")
edit("the gradient at the weights is not", "1 - seen).square(", "(1 - seen) * (1 - seen).detach()")


@wrong("03.coverage", "add up over the steps")
def over_regions(weights, lengths):
    return ((1 - weights.sum(2)).square() * _real(weights, lengths)[..., 0]).sum(1)


@wrong("03.coverage", "each step is squared alone")
def steps_alone(weights, lengths):
    return ((1 - weights).square() * _real(weights, lengths)).sum((1, 2))


@wrong("03.coverage", "the square is missing")
def no_square(weights, lengths):
    return (1 - (weights * _real(weights, lengths)).sum(1)).sum(-1)


@wrong("03.coverage", "no gradient goes back")
def penalty_of_numbers(weights, lengths):
    rows = zip(weights.tolist(), lengths.tolist())
    return torch.tensor(
        [sum((1 - sum(column)) ** 2 for column in zip(*row[:length])) for row, length in rows]
    )


edit = edits("03.reinforce")
edit("the sign of the baseline is wrong", "log_p - baseline", "log_p + baseline")
edit("the baseline is not used", "(log_p - baseline)", "log_p")
edit("pushes the wrong way", "- advantage *", "+ advantage *")
edit("the advantage carries a gradient", ".detach()", "")
edit("the entropy is punished", "- entropy_weight", "+ entropy_weight")
edit("no gradient comes from the entropy", "- entropy_weight * entropy", "")
edit("that of the most probable region", "gather(-1, chosen.unsqueeze(-1)).squeeze(-1)", "amax(-1)")
edit("of all regions are added up", "gather…", "sum(dim=(1, 2))")
edit("where its logarithm should", "log_alpha.gather", "log_alpha.exp().gather")
edit("the advantage is left out", "advantage *", "")
edit(
    "detach the advantage alone",
    ".detach()",
    "",
    "advantage * log_choice",
    "(advantage * log_choice).detach()",
)
edit("a log_softmax is missing", "log_alpha.gather", "scores.gather")
edit("the means over the captions are multiplied", " * log_choice", ".mean() * log_choice.mean()")
edit("log p(s) is averaged over the steps", ".squeeze(-1).sum(dim=1)", ".squeeze(-1).mean(dim=1)")
edit("the entropy is averaged over the steps", "* entropy", "* entropy / scores.shape[1]")
edit("the words do not learn", "-log_p - advantage", "-advantage")
edit("that of a sum over the captions", ".mean()", ".sum()")
edit("no gradient reaches the scores", "log_softmax(scores", "log_softmax(scores.detach()")
edit("no gradient can be taken of your loss", ".mean()", ".mean().detach()")
edit("one number: the mean over the captions", "- entropy_weight * entropy).mean()", ")")


@wrong("03.coverage", "without any steps: penalty")
def up_to_the_last_step(weights, lengths):
    seen = weights.cumsum(1)[torch.arange(len(lengths)), lengths - 1]
    return (1 - seen).square().sum(-1)
