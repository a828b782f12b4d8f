import torch

from ..collection import edits, wrong

edit = edits("07.worth_of_leaving")
edit("going is better", "return 7", "return 6")
edit("one row after the other", "return 7", "return 8")
edit("one number", "return 7", 'return "7"')

edit = edits("07.end_unseen")
edit("expected one of", '"nearly nothing"', '"a third"')
edit("expected one of", '"nearly nothing"', '"all"')
edit("one of 'nearly nothing'", '"nearly nothing"', "0.0")


edit = edits("07.returns")
edit("the sum is cut where an episode ends", "first[:, t + 1]", "done[:, t]")
edit("expected float64", "= after\n", "= after\n    result = result.float()\n")
edit("right for small sizes", "(range(rewards.shape[1]))", "(range(min(100, rewards.shape[1])))")


edit = edits("07.value_iteration")
edit("with no steps left the value is 0", "means.new_zeros(len(means))", "means.max(1).values")
edit("the rows are in the order of time", "(values)…", "(values[::-1]), torch.stack(actions[::-1])")
edit("expected the tuple (values, actions)", "stack(values), torch.stack(actions)", "stack(values)")


@wrong("07.near_and_far", "the step before is never seen")
def back_as_printed(x, filters, gates):
    for level, (W_f, W_g) in enumerate(zip(filters, gates)):
        earlier = torch.nn.functional.pad(x, (0, 0, 2 ** (level + 1), 0))[:, : x.shape[1]]
        pair = torch.cat([earlier, x], -1)
        x = torch.cat([x, torch.tanh(pair @ W_f) * torch.sigmoid(pair @ W_g)], -1)
    return x


edit = edits("07.near_and_far")
edit("no gradient reaches gate 0", "pair @ W_g", "pair @ W_g.detach()")
edit("right for small sizes", "2**level", "min(2**level, 16)")
