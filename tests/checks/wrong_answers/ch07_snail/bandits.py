from ..collection import edits

edits(
    "07.ucb_choice",
    ("an arm that was never pulled is not pulled now", "torch.inf", "-torch.inf"),
    (
        "an arm that was never pulled is not pulled now",
        ".masked_fill(pulls == 0, torch.inf)",
        ".nan_to_num(0.0, 0.0)",
    ),
    (
        "counts as pulled once",
        "total = pulls.sum(1, keepdim=True)",
        "total, pulls = pulls.sum(1, keepdim=True), pulls.clamp(min=1)",
    ),
    ("the width is missing", "+ (2 * total.log() / pulls).sqrt()", ""),
    ("that is caution", "+ (2", "- (2"),
    ("the 2 under the root is missing", "2 * total", "total"),
    (
        "t is the number of pulls of all worlds together",
        "pulls.sum(1, keepdim=True)",
        "pulls.sum()",
    ),
    ("t is the number of pulls of the arm", "pulls.sum(1, keepdim=True)", "pulls"),
    (
        "they belong under it",
        "(2 * total.log() / pulls).sqrt()",
        "(2 * total.log()).sqrt() / pulls",
    ),
    ("the root is missing", ".sqrt()", ""),
    (
        "one number an arm came back",
        "return bound.masked_fill(pulls == 0, torch.inf).argmax(1)",
        "return bound.nan_to_num(9.0)",
    ),
)


edits(
    "07.policy_loss",
    ("detach it in the term of the policy", ".detach()", ""),
    ("pushes the wrong way", "returns - values", "values - returns"),
    ("the baseline is not used", "(returns - values).detach()", "returns"),
    (
        "are normalised",
        "advantage = (returns - values).detach()",
        "gains = (returns - values).detach()\n    advantage = (gains - gains.mean()) / gains.std()",
    ),
    ("the reward of the step alone", "rewards.flip(1).cumsum(1).flip(1)", "rewards"),
    (
        "leaves out the reward of the step itself",
        "cumsum(1).flip(1)",
        "cumsum(1).flip(1) - rewards",
    ),
    ("from the start to the step", ".flip(1)", ""),
    (
        "no merit of it",
        "rewards.flip(1).cumsum(1).flip(1)",
        "rewards.sum(1, keepdim=True).expand_as(rewards)",
    ),
    (
        "over the end of a world into the next one",
        "rewards.flip(1).cumsum(1).flip(1)",
        "rewards.flatten().flip(0).cumsum(0).flip(0).view_as(rewards)",
    ),
    ("the most probable action", "actions[..., None]", "logits.argmax(-1, keepdim=True)"),
    ("a log_softmax is missing", ".log_softmax(-1)", ""),
    ("the mean over the steps too", ".sum(1).mean()", ".mean()"),
    ("½ before (V − R)² is missing", "0.5 *", ""),
    ("the values: the term", "+ 0.5 * (values - returns) ** 2", ""),
)
