from ..collection import edits

edit = edits("07.worth_of_a_look")
edit("if you never change arms", "5 / 3", "1.5")
edit(" is not ", "5 / 3", "1.8")
edit("one number", "5 / 3", '"5 / 3"')


edit = edits("07.lied_to")
edit("expected one of", '"less than at random"', '"less"')
edit("expected one of", '"less than at random"', '"nothing"')
edit("one of 'as much as before", '"less than at random"', "3.6")


edit = edits("07.ucb_choice")
edit("an arm that was never pulled is not pulled now", "torch.inf", "-torch.inf")
edit(
    "an arm that was never pulled is not pulled now",
    ".masked_fill(pulls == 0, torch.inf)",
    ".nan_to_num(0.0, 0.0)",
)
edit(
    "counts as pulled once", " = pulls…", ", pulls = pulls.sum(1, keepdim=True), pulls.clamp(min=1)"
)
edit("the width is missing", "+ (2 * total.log() / pulls).sqrt()", "")
edit("that is caution", "+ (2", "- (2")
edit("the 2 under the root is missing", "2 * total", "total")
edit("t is one pull too large", "total.log()", "(total + 1).log()")
edit(
    "a small number added to the pulls",
    ".masked_fill(pulls == 0, torch.inf)",
    "",
    "/ pulls",
    "/ (pulls + 1e-9)",
)
edit("t is the number of pulls of all worlds together", "pulls.sum(1, keepdim=True)", "pulls.sum()")
edit("t is the number of pulls of the arm", "pulls.sum(1, keepdim=True)", "pulls")
edit("they belong under it", "(2 * total.log() / pulls).sqrt()", "(2 * total.log()).sqrt() / pulls")
edit("the root is missing", ".sqrt()", "")
edit("one number an arm came back", "masked_fill…", "nan_to_num(9.0)")


edit = edits("07.policy_loss")
edit("detach it in the term of the policy", ".detach()", "")
edit("pushes the wrong way", "returns - values", "values - returns")
edit("the baseline is not used", "(returns - values).detach()", "returns")
edit(
    "are normalised",
    "advantage = (returns - values).detach()",
    "gains = (returns - values).detach()\n    advantage = (gains - gains.mean()) / gains.std()",
)
edit("the reward of the step alone", "rewards.flip(1).cumsum(1).flip(1)", "rewards")
edit("leaves out the reward of the step itself", "cumsum(1).flip(1)", "cumsum(1).flip(1) - rewards")
edit("from the start to the step", ".flip(1)", "")
edit("no merit of it", ".flip(1).cumsum(1).flip(1)", ".sum(1, keepdim=True).expand_as(rewards)")
edit(
    "over the end of a world into the next one",
    "rewards.flip(1).cumsum(1).flip(1)",
    "rewards.flatten().flip(0).cumsum(0).flip(0).view_as(rewards)",
)
edit("the most probable action", "actions[..., None]", "logits.argmax(-1, keepdim=True)")
edit("a log_softmax is missing", ".log_softmax(-1)", "")
edit("the mean over the steps too", ".sum(1).mean()", ".mean()")
edit("½ before (V − R)² is missing", "0.5 *", "")
edit("the values: the term", "+ 0.5 * (values - returns) ** 2", "")
