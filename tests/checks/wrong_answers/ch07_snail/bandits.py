import torch

from ..collection import wrong


def _bound(wins, pulls, total=None):
    total = pulls.sum(1, keepdim=True) if total is None else total
    return wins / pulls + (2 * total.log() / pulls).sqrt()


def _with(bound, pulls, value):
    return torch.where(pulls == 0, torch.tensor(value), bound).argmax(1)


@wrong("07.ucb_choice", "an arm that was never pulled is not pulled now")
def never_the_untried(wins, pulls):
    return _with(_bound(wins, pulls), pulls, float("-inf"))


@wrong("07.ucb_choice", "an arm that was never pulled is not pulled now")
def untried_are_worth_nothing(wins, pulls):
    return _bound(wins, pulls).nan_to_num(0.0, 0.0).argmax(1)


@wrong("07.ucb_choice", "counts as pulled once")
def clamped(wins, pulls):
    n = pulls.clamp(min=1)
    return (wins / n + (2 * pulls.sum(1, keepdim=True).log() / n).sqrt()).argmax(1)


@wrong("07.ucb_choice", "the width is missing")
def greedy(wins, pulls):
    return _with(wins / pulls, pulls, float("inf"))


@wrong("07.ucb_choice", "that is caution")
def lower_bound(wins, pulls):
    return _with(2 * wins / pulls - _bound(wins, pulls), pulls, float("inf"))


@wrong("07.ucb_choice", "the 2 under the root is missing")
def without_two(wins, pulls):
    return _with(
        wins / pulls + (pulls.sum(1, keepdim=True).log() / pulls).sqrt(), pulls, float("inf")
    )


@wrong("07.ucb_choice", "t is the number of pulls of all worlds together")
def all_worlds(wins, pulls):
    return _with(_bound(wins, pulls, pulls.sum()), pulls, float("inf"))


@wrong("07.ucb_choice", "t is the number of pulls of the arm")
def own_pulls(wins, pulls):
    return _with(_bound(wins, pulls, pulls), pulls, float("inf"))


@wrong("07.ucb_choice", "they belong under it")
def pulls_outside(wins, pulls):
    return _with(
        wins / pulls + (2 * pulls.sum(1, keepdim=True).log()).sqrt() / pulls, pulls, float("inf")
    )


@wrong("07.ucb_choice", "the root is missing")
def without_root(wins, pulls):
    return _with(wins / pulls + 2 * pulls.sum(1, keepdim=True).log() / pulls, pulls, float("inf"))


@wrong("07.ucb_choice", "one number an arm came back")
def the_bounds(wins, pulls):
    return _bound(wins, pulls).nan_to_num(9.0)


def _loss(logits, values, actions, rewards, gains=None, returns=None, detach=True, half=0.5):
    returns = rewards.flip(1).cumsum(1).flip(1) if returns is None else returns
    gains = returns - values if gains is None else gains
    gains = gains.detach() if detach else gains
    log_p = logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    return (-gains * log_p + half * (values - returns) ** 2).sum(1).mean()


@wrong("07.policy_loss", "detach it in the term of the policy")
def not_detached(logits, values, actions, rewards):
    return _loss(logits, values, actions, rewards, detach=False)


@wrong("07.policy_loss", "pushes the wrong way")
def downhill(logits, values, actions, rewards):
    returns = rewards.flip(1).cumsum(1).flip(1)
    return _loss(logits, values, actions, rewards, gains=values - returns)


@wrong("07.policy_loss", "the baseline is not used")
def without_baseline(logits, values, actions, rewards):
    return _loss(logits, values, actions, rewards, gains=rewards.flip(1).cumsum(1).flip(1))


@wrong("07.policy_loss", "are normalised")
def normalised(logits, values, actions, rewards):
    gains = rewards.flip(1).cumsum(1).flip(1) - values.detach()
    return _loss(logits, values, actions, rewards, gains=(gains - gains.mean()) / gains.std())


@wrong("07.policy_loss", "the reward of the step alone")
def immediate(logits, values, actions, rewards):
    return _loss(logits, values, actions, rewards, returns=rewards)


@wrong("07.policy_loss", "leaves out the reward of the step itself")
def later_rewards(logits, values, actions, rewards):
    return _loss(
        logits, values, actions, rewards, returns=rewards.flip(1).cumsum(1).flip(1) - rewards
    )


@wrong("07.policy_loss", "from the start to the step")
def forwards(logits, values, actions, rewards):
    return _loss(logits, values, actions, rewards, returns=rewards.cumsum(1))


@wrong("07.policy_loss", "no merit of it")
def total(logits, values, actions, rewards):
    return _loss(
        logits, values, actions, rewards, returns=rewards.sum(1, keepdim=True).expand_as(rewards)
    )


@wrong("07.policy_loss", "over the end of a world into the next one")
def over_the_end(logits, values, actions, rewards):
    return _loss(
        logits,
        values,
        actions,
        rewards,
        returns=rewards.flatten().flip(0).cumsum(0).flip(0).view_as(rewards),
    )


@wrong("07.policy_loss", "the most probable action")
def other_action(logits, values, actions, rewards):
    return _loss(logits, values, logits.argmax(-1), rewards)


@wrong("07.policy_loss", "a log_softmax is missing")
def raw_logits(logits, values, actions, rewards):
    returns = rewards.flip(1).cumsum(1).flip(1)
    chosen = logits.gather(-1, actions[..., None])[..., 0]
    return (-(returns - values).detach() * chosen + 0.5 * (values - returns) ** 2).sum(1).mean()


@wrong("07.policy_loss", "the mean over the steps too")
def mean_of_all(logits, values, actions, rewards):
    return _loss(logits, values, actions, rewards) / rewards.shape[1]


@wrong("07.policy_loss", "½ before (V − R)² is missing")
def without_half(logits, values, actions, rewards):
    return _loss(logits, values, actions, rewards, half=1.0)


@wrong("07.policy_loss", "the values: the term")
def no_value_term(logits, values, actions, rewards):
    returns = rewards.flip(1).cumsum(1).flip(1)
    log_p = logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    return (-(returns - values).detach() * log_p).sum(1).mean()
