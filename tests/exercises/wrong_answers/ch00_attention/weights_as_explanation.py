import torch

from ..collection import edits, wrong


@wrong("00.no_attention", "expected one of")
def another_word():
    return "most"


@wrong("00.no_attention", "expected one of")
def about_eighty():
    return "80"


@wrong("00.no_attention", "one of")
def a_share():
    return 0.8


edit = edits("00.leave_one_out")
edit("predict got a single row", "predict(inputs[rows])", "torch.stack([*map(predict, inputs)])")
edit("one number a row of inputs", ".abs()", ".abs().sum()")


@wrong("00.leave_one_out", "times for")
def as_printed(predict, inputs):
    full, effects = predict(inputs), []
    for i in range(len(inputs)):
        without = torch.cat((inputs[:i], inputs[i + 1 :]))
        effects.append((full - predict(without)).abs())
    return torch.stack(effects)


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


@wrong("00.gradient_times_input", "inputs in place: it asks for gradients now")
def marks_inputs(predict, inputs):
    inputs.requires_grad_()
    predict(inputs).backward()
    return (inputs * inputs.grad).sum(-1).abs()


edit = edits("00.rank_agreement")
edit("of small numbers", "signs =", "first, second = (1000 * first).long(), second\n    signs =")
edit("alike in float32", "signs =", "first, second = first.float(), second.float()\n    signs =")


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


@wrong("00.leave_one_out", "")
def every_word_of_that_kind(predict, inputs):
    rest = [inputs[(inputs != word).any(1)] for word in inputs]
    return torch.stack([(predict(inputs) - predict(words)).abs() for words in rest])
