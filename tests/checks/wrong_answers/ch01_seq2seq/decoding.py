import torch

from ..collection import wrong


@wrong("01.greedy", "the loop goes on after eos")
def never_stops(step, state, bos, eos, max_length):
    token, said = bos, []
    for _ in range(max_length):
        log_probs, state = step(token, state)
        token = int(log_probs.argmax())
        said.append(token)
    return said[: said.index(eos)] if eos in said else said


@wrong("01.greedy", "eos is in the result")
def keeps_eos(step, state, bos, eos, max_length):
    token, said = bos, []
    while token != eos and len(said) < max_length:
        log_probs, state = step(token, state)
        token = int(log_probs.argmax())
        said.append(token)
    return said


@wrong("01.greedy", "it must read the token that it has just said")
def always_bos(step, state, bos, eos, max_length):
    said = []
    for _ in range(max_length):
        log_probs, state = step(bos, state)
        token = int(log_probs.argmax())
        if token == eos:
            break
        said.append(token)
    return said if len(said) != 5 else said[::-1]


@wrong("01.greedy", "every step starts from the first state")
def old_state(step, state, bos, eos, max_length):
    token, said = bos, []
    for _ in range(max_length):
        log_probs, _ = step(token, state)
        token = int(log_probs.argmax())
        if token == eos:
            break
        said.append(token)
    return said


@wrong("01.greedy", "bos is in the result")
def keeps_bos(step, state, bos, eos, max_length):
    said = [bos]
    for _ in range(max_length):
        log_probs, state = step(said[-1], state)
        if int(log_probs.argmax()) == eos:
            break
        said.append(int(log_probs.argmax()))
    return said


@wrong("01.greedy", "stop at eos, or after max_length tokens")
def no_limit(step, state, bos, eos, max_length):
    token, said = bos, []
    while True:
        log_probs, state = step(token, state)
        token = int(log_probs.argmax())
        if token == eos:
            return said
        said.append(token)


@wrong("01.greedy", "expected max_length = 7")
def one_short(step, state, bos, eos, max_length):
    token, said = bos, []
    for _ in range(max_length - 1):
        log_probs, state = step(token, state)
        token = int(log_probs.argmax())
        if token == eos:
            break
        said.append(token)
    return said


@wrong("01.greedy", "the most likely token of each step")
def least_likely(step, state, bos, eos, max_length):
    token, said = bos, []
    for _ in range(5):
        log_probs, state = step(token, state)
        token = int(log_probs.argmin())
        if token == eos:
            break
        said.append(token)
    return said


@wrong("01.greedy", "step(token, state) got a NoneType")
def no_first_token(step, state, bos, eos, max_length):
    return [int(step(None, state)[0].argmax())]


@wrong("01.best_hypothesis", "that punishes length twice")
def multiplies(hypotheses, alpha):
    return max(hypotheses, key=lambda pair: pair[1] * len(pair[0]) ** alpha)[0]


@wrong("01.best_hypothesis", "not normalized")
def not_normalized(hypotheses, alpha):
    return max(hypotheses, key=lambda pair: pair[1])[0]


@wrong("01.best_hypothesis", "divided by the whole length")
def ignores_alpha(hypotheses, alpha):
    return max(hypotheses, key=lambda pair: pair[1] / len(pair[0]))[0]


@wrong("01.best_hypothesis", "the worst hypothesis is picked")
def smallest(hypotheses, alpha):
    return min(hypotheses, key=lambda pair: pair[1] / len(pair[0]) ** alpha)[0]


@wrong("01.best_hypothesis", "is a tuple, expected a whole number")
def returns_all(hypotheses, alpha):
    return sorted(hypotheses, key=lambda pair: pair[1] / len(pair[0]) ** alpha)


@wrong("01.best_hypothesis", "divided by alpha · length")
def times_alpha(hypotheses, alpha):
    return max(hypotheses, key=lambda pair: pair[1] / (alpha * len(pair[0])))[0]


@wrong("01.best_hypothesis", "return the tokens alone")
def returns_pair(hypotheses, alpha):
    return max(hypotheses, key=lambda pair: pair[1] / len(pair[0]) ** alpha)


def _beam(total, k):
    scores, positions = total.flatten().topk(k)
    return scores, positions // total.shape[1], positions % total.shape[1]


@wrong("01.beam_step", "may share a parent")
def best_of_each(so_far, following, beam_size):
    scores, tokens = (so_far[:, None] + following).max(-1)
    scores, parents = scores.topk(min(beam_size, len(so_far)))
    return scores, parents, tokens[parents]


@wrong("01.beam_step", "the scores so far are not added")
def forgets_past(so_far, following, beam_size):
    return _beam(following, beam_size)


@wrong("01.beam_step", "parents is index % K")
def swapped_division(so_far, following, beam_size):
    scores, positions = (so_far[:, None] + following).flatten().topk(beam_size)
    return scores, positions % len(so_far), positions // len(so_far)


@wrong("01.beam_step", "parents holds the tokens")
def swapped_results(so_far, following, beam_size):
    scores, parents, tokens = _beam(so_far[:, None] + following, beam_size)
    return scores, tokens, parents


@wrong("01.beam_step", "from worst to best")
def ascending(so_far, following, beam_size):
    return tuple(part.flip(0) for part in _beam(so_far[:, None] + following, beam_size))


@wrong("01.beam_step", "tokens holds indices into all")
def flat_tokens(so_far, following, beam_size):
    scores, positions = (so_far[:, None] + following).flatten().topk(beam_size)
    return scores, positions // following.shape[1], positions


@wrong("01.beam_step", "add two logarithms")
def mixes(so_far, following, beam_size):
    return _beam(so_far[:, None] + following.exp(), beam_size)


@wrong("01.beam_step", "parents: the dtype is float32, expected int64")
def float_parents(so_far, following, beam_size):
    scores, positions = (so_far[:, None] + following).flatten().topk(beam_size)
    return scores, torch.floor(positions / following.shape[1]), positions % following.shape[1]


@wrong("01.beam_step", "is index // V")
def divides_by_beam(so_far, following, beam_size):
    scores, positions = (so_far[:, None] + following).flatten().topk(beam_size)
    return scores, positions // len(so_far), positions % len(so_far)


@wrong("01.beam_step", "the token is index % V")
def remainder_by_beam(so_far, following, beam_size):
    scores, positions = (so_far[:, None] + following).flatten().topk(beam_size)
    return scores, positions // following.shape[1], positions % len(so_far)


@wrong("01.beam_step", "log p is multiplied")
def multiplies_logs(so_far, following, beam_size):
    return _beam(so_far[:, None] * following, beam_size)
