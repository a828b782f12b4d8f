import torch

from ..collection import edits, wrong

edit = edits("09.told_the_same")
edit("expected one of 'only the sum'", "only the delta rule", "delta")
edit("a bool came back", '"only the delta rule"', "True")
edit("None came back", 'return "only the delta rule"', "pass")
edit("a float came back", '"only the delta rule"', "0.8")

edit = edits("09.more_features")
edit("no gradient goes back", "[k, -k], -1).relu()", "[k, -k], -1).relu().detach()")
edit("offsets)", "most + 1", "most")
edit("features for each of", "[k, -k], -1", "[k], -1")
edit("None came back", "return torch.cat", "torch.cat")

edit = edits("09.states_kept")
edit("those are the states of one layer", "24 * 16", "16")
edit("a chunk has so many tokens", "(4096 // 128)", "128")
edit("the gibibytes token by token is not 1000", "8 * 4096 * one", "1000")
edit("expected the tuple", "return 8 * 4096 * one, ", "return ")

edit = edits("09.decays_as_a_matrix")
edit("no gradient reaches alpha", "alpha[i] * left", "alpha[i].detach() * left")
edit("None came back", "return Q @ K.T * torch.stack(rows)", "pass")
edit("right to some digits only", "torch.zeros_like(alpha)", "torch.zeros(len(K))")


@wrong("09.decays_as_a_matrix", "where a decay is 0 and another 1: ")
def by_quotients(Q, K, alpha):
    product = alpha.cumprod(0)
    return (Q @ K.T * product[:, None] / product).tril()


@wrong("09.decays_as_a_matrix", "a logarithm of 0 is taken")
def by_logarithms(Q, K, alpha):
    log = alpha.log().cumsum(0)
    return (Q @ K.T * (log[:, None] - log).exp()).tril()


@wrong("09.decays_as_a_matrix", "the gradient at alpha")
def zeros_are_raised(Q, K, alpha):
    log = alpha.clamp_min(1e-12).log().cumsum(0)
    return (Q @ K.T * (log[:, None] - log).tril().exp()).tril()


edit = edits("09.after_the_prompt")
edit("context[", "gamma**n * S", "gamma * S")
edit("context[", "place + 1", "place")
edit("expected (context, state)", "return torch.cat(out), S", "return S, torch.cat(out)")


@wrong("09.after_the_prompt", "all of it has decayed as if")
def as_printed(Q, K, V, gamma, size):
    place = torch.arange(size)
    since = (gamma ** (place + 1))[:, None]
    until = (gamma ** (size - 1 - place))[:, None]
    between = (gamma ** (place[:, None] - place)).tril()
    S, out = torch.zeros(K.shape[1], V.shape[1]), []
    for q, k, v in zip(Q.split(size), K.split(size), V.split(size)):
        n = len(k)
        out.append(since[:n] * q @ S + (q @ k.T * between[:n, :n]) @ v)
        S = gamma**size * S + (until[:n] * k).T @ v
    return torch.cat(out), S
