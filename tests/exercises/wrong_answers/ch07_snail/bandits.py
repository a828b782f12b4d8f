from ..collection import edits

edit = edits("07.lied_to")
edit("expected one of", '"less than at random"', '"less"')
edit("expected one of", '"less than at random"', '"nothing"')
edit("one of 'as much as before", '"less than at random"', "3.6")


edit = edits("07.rate_and_baseline")
edit("where its first pulls sent it", "100.5", "0")
edit("most have not made up their minds", "0.5,", "0.05,")
edit("a few noisy rewards decide", "0.5,", "5,")
edit("expected a number above 0", "0.5,", "0.0,")
edit("expected the tuple", "0.5, 100.5", "0.5")


edit = edits("07.ucb_choice")
edit(
    "an arm that was never pulled is not pulled now",
    ".masked_fill(pulls == 0, torch.inf)",
    ".nan_to_num(0.0, 0.0)",
)
edit(
    "counts as pulled once", " = pulls…", ", pulls = pulls.sum(1, keepdim=True), pulls.clamp(min=1)"
)
edit("one number an arm came back", "masked_fill…", "nan_to_num(9.0)")


edit = edits("07.policy_loss")
edit("detach it in the term of the policy", ".detach()", "")
edit("no gradient can be taken of your loss", ".sum(1).mean()", ".sum(1).mean().detach()")
edit("the values: the term", "+ 0.5 * (values - returns) ** 2", "")
