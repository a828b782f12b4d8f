import torch

from ..collection import edits, wrong

edit = edits("00.one_word_less")
edit("have to grow", "(-4 / 2)", "(-4 / 4)")
edit("the verdict without the word", "abs((8 / 2 - 4 / 4) - (-4 / 2))", "-4 / 2")
edit("the effect is not 7", "abs((8 / 2 - 4 / 4) - (-4 / 2))", "7")


@wrong("00.no_attention", "expected one of")
def another_word():
    return "most"


@wrong("00.no_attention", "expected one of")
def about_eighty():
    return "80"


@wrong("00.no_attention", "one of")
def a_share():
    return 0.8


@wrong("00.leave_one_out", "a row of zeros is still a row")
def zeroes(predict, inputs):
    effects = []
    for i in range(len(inputs)):
        changed = inputs.clone()
        changed[i] = 0
        effects.append((predict(inputs) - predict(changed)).abs())
    return torch.stack(effects)


edit = edits("00.leave_one_out")
edit("predict got a single row", "torch.cat((inputs[:i], inputs[i + 1 :]))", "inputs[i]")
edit("one number a row of inputs", "torch.stack(effects)", "sum(effects)")


@wrong("00.leave_one_out", "changes its argument inputs in place")
def spoils_inputs(predict, inputs):
    full, effects = predict(inputs), []
    for i in range(len(inputs)):
        inputs[i] = 0
        effects.append((full - predict(inputs)).abs())
    return torch.stack(effects)


edit = edits("00.gradient_times_input")
edit("added up over the width", ".sum(dim=-1)", "")
edit(
    "your code stopped with RuntimeError: element 0 of tensors does not require grad",
    "inputs.detach().clone().requires_grad_()",
    "inputs",
)


@wrong("00.gradient_times_input", "leaves gradients on its argument inputs")
def marks_inputs(predict, inputs):
    inputs.requires_grad_()
    predict(inputs).backward()
    return (inputs * inputs.grad).sum(-1).abs()


@wrong("00.rank_agreement", "correlation of the numbers")
def pearson(first, second):
    return torch.corrcoef(torch.stack((first, second)))[0, 1].clamp(-1, 1)


@wrong("00.rank_agreement", "correlation of the ranks")
def spearman(first, second):
    ranks = torch.stack((first.argsort().argsort(), second.argsort().argsort())).double()
    return torch.corrcoef(ranks)[0, 1]


@wrong("00.rank_agreement", "the agreement of")
def top_only(first, second):
    return float(first.argmax() == second.argmax())


@wrong("00.pool_a_batch", "the softmax runs over the batch (dim=0)")
def pool_as_printed(words, query, real):
    weights = torch.softmax((words @ query).masked_fill(~real, float("-inf")), 0)
    return (weights[..., None] * words).sum(1), weights


edit = edits("00.pool_a_batch")
edit("expected (context, weights)", "context, weights", "weights, context")
edit("no gradient reaches query", "dim=-1)", "dim=-1).detach()")
edit("the texts share one softmax", "torch.softmax…", "scores.flatten().softmax(0).view_as(scores)")
edit("made with those of a softmax over the batch", "(weights.", "(scores.softmax(0).")


@wrong("00.leave_one_out", "")
def every_word_of_that_kind(predict, inputs):
    rest = [inputs[(inputs != word).any(1)] for word in inputs]
    return torch.stack([(predict(inputs) - predict(words)).abs() for words in rest])
