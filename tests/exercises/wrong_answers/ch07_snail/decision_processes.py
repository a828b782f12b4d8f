import torch

from ..collection import edits, wrong


def _returns(rewards, cut):
    found, after = torch.zeros_like(rewards), torch.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        after = rewards[:, t] + after.masked_fill(cut[:, t], 0.0)
        found[:, t] = after
    return found


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
edit("the sum runs on into the next world", "if t + 1 < rewards.shape[1]:", "if False:")
edit("each row has its own", "first[:, t + 1]", "first[:, t + 1].any()")
edit("cut one step late", "t + 1 < rewards.shape[1]:", "True:", "first[:, t + 1]", "first[:, t]")
edit("the reward of the step itself is left out", "return result", "return result - rewards")
edit("the reward alone came back", "rewards[:, t] + after", "rewards[:, t]")


@wrong("07.returns", "from the start of the world to the step")
def forwards(rewards, done, first):
    return _returns(rewards.flip(1), first.flip(1)).flip(1)


edit = edits("07.value_iteration")
edit("with no steps left the value is 0", "torch.zeros(len(means))", "means.max(1).values")
edit("the rows are in the order of time", "(values)…", "(values[::-1]), torch.stack(actions[::-1])")
edit("the wrong way round", "transitions @", "transitions.transpose(0, 2) @")
edit(
    "the actions are averaged",
    "worth, best = (means + transitions @ worth).max(1)",
    "worth = means + transitions @ worth\n        worth, best = worth.mean(1), worth.argmax(1)",
)
edit("discounted by 0.9", "+ transitions", "+ 0.9 * transitions")
edit("what comes after counts too", "append(best)", "append(means.argmax(1))")
edit(
    "the most probable next state",
    "transitions @",
    "(transitions == transitions.amax(-1, keepdim=True)).float() @",
)
edit("expected the tuple (values, actions)", "stack(values), torch.stack(actions)", "stack(values)")


@wrong("07.near_and_far", "the step before is never seen")
def back_as_printed(x, filters, gates):
    for level, (W_f, W_g) in enumerate(zip(filters, gates)):
        earlier = torch.nn.functional.pad(x, (0, 0, 2 ** (level + 1), 0))[:, : x.shape[1]]
        pair = torch.cat([earlier, x], -1)
        x = torch.cat([x, torch.tanh(pair @ W_f) * torch.sigmoid(pair @ W_g)], -1)
    return x


edit = edits("07.near_and_far")
edit("all blocks look one step back", "2**level", "1")
edit("grow by one from block to block", "2**level", "level + 1")
edit("the largest distance comes first", "2**level", "2 ** (len(filters) - 1 - level)")
edit("come round from the end", "F.pad(h, (0, 0, back, 0))[:, : h.shape[1]]", "h.roll(back, 1)")
edit("paired with a later one", "0, 0, back, 0))[:, : h.shape[1]]", "0, 0, 0, back))[:, back:]")
edit("the earlier row stands first", "[earlier, h]", "[h, earlier]")
edit("tanh belongs to the filter", "(W_f, W_g)", "(W_g, W_f)")
edit("the gate is not used", "* torch.sigmoid(pair @ W_g)", "")
edit("the new columns stand in front", "[h, new]", "[new, h]")
edit("no gradient reaches gate 0", "pair @ W_g", "pair @ W_g.detach()")
