import torch

from ..collection import edits, wrong

edit = edits("09.state_or_cache")
edit("numbers of four bytes, those of the cache two", "512", "256")
edit("is not 500", "512", "500")
edit("expected one number", "512", '"512 tokens"')

edit = edits("09.told_the_same")
edit("expected one of 'only the sum'", "only the delta rule", "delta")
edit("a bool came back", '"only the delta rule"', "True")
edit("None came back", 'return "only the delta rule"', "pass")
edit("a float came back", '"only the delta rule"', "0.8")

edit = edits("09.gated_delta_step")
edit("expected the tuple (o, S)", "[:, 0], S", "[:, 0]")
edit("(S, o): expected (o, S)", "(q[:, None] @ S)[:, 0], S", "S, (q[:, None] @ S)[:, 0]")
edit("the shape is", "(q[:, None] @ S)[:, 0]", "q[:, None] @ S")
edit("no gradient reaches k", "k[:, :, None] * u", "k.detach()[:, :, None] * u.detach()")


@wrong("09.gated_delta_step", "before its decay")
def looks_at_the_old_state(S, q, k, v, alpha, beta):
    u = beta[:, None, None] * (v[:, None] - k[:, None] @ S)
    S = alpha[:, None, None] * S + k[:, :, None] * u
    return (q[:, None] @ S)[:, 0], S


@wrong("09.gated_delta_step", "the decay comes last")
def decays_last(S, q, k, v, alpha, beta):
    S = S + k[:, :, None] * beta[:, None, None] * (v[:, None] - k[:, None] @ S)
    S = alpha[:, None, None] * S
    return (q[:, None] @ S)[:, 0], S


@wrong("09.gated_delta_step", "reads before the token is written")
def reads_first(S, q, k, v, alpha, beta):
    S = alpha[:, None, None] * S
    o = (q[:, None] @ S)[:, 0]
    return o, S + k[:, :, None] * beta[:, None, None] * (v[:, None] - k[:, None] @ S)


@wrong("09.gated_delta_step", "reads the old state")
def reads_the_old_state(S, q, k, v, alpha, beta):
    o = (q[:, None] @ S)[:, 0]
    S = alpha[:, None, None] * S
    return o, S + k[:, :, None] * beta[:, None, None] * (v[:, None] - k[:, None] @ S)


@wrong("09.gated_delta_step", "changes")
def in_place(S, q, k, v, alpha, beta):
    S *= alpha[:, None, None]
    S += k[:, :, None] * beta[:, None, None] * (v[:, None] - k[:, None] @ S)
    return (q[:, None] @ S)[:, 0], S


edit = edits("09.decays_as_a_matrix")
edit("the decays are missing", "alpha[i] * left", "left")
edit("the earlier token's own decay is counted", "left + one[i]", "(left + one[i])")
edit("that is the transposed matrix", "Q @ K…", "(Q @ K.T * torch.stack(rows)).T")
edit("the keys decay towards the future", "torch.stack(rows)", "torch.stack(rows).T")
edit("these are the factors alone", "Q @ K.T * torch.stack(rows)", "torch.stack(rows)")
edit("no gradient reaches alpha", "alpha[i] * left", "alpha[i].detach() * left")
edit("None came back", "return Q @ K.T * torch.stack(rows)", "pass")


@wrong("09.decays_as_a_matrix", "the last decay is missing")
def without_the_last(Q, K, alpha):
    one = torch.eye(len(K))
    left, rows = torch.zeros(len(K)), []
    for i in range(len(K)):
        left = (alpha[i - 1] * (left - one[i - 1]) + one[i - 1] if i else left) + one[i]
        rows.append(left)
    return Q @ K.T * torch.stack(rows)


@wrong("09.decays_as_a_matrix", "where a decay is 0 and another 1: ")
def by_quotients(Q, K, alpha):
    product = alpha.cumprod(0)
    return (Q @ K.T * product[:, None] / product).tril()


@wrong("09.decays_as_a_matrix", "all is 0 behind a decay of 0")
def by_safe_quotients(Q, K, alpha):
    product = alpha.cumprod(0)
    return (Q @ K.T * product[:, None] / product.clamp_min(1e-30)).tril()


@wrong("09.decays_as_a_matrix", "a logarithm of 0 is taken")
def by_logarithms(Q, K, alpha):
    log = alpha.log().cumsum(0)
    return (Q @ K.T * (log[:, None] - log).exp()).tril()


@wrong("09.decays_as_a_matrix", "the upper triangle is not 0")
def without_the_mask(Q, K, alpha):
    A = torch.ones(len(K), len(K))
    for i in range(len(K)):
        for j in range(i):
            A[i, j] = alpha[j + 1 : i + 1].prod()
    return Q @ K.T * A


@wrong("09.decays_as_a_matrix", "alone: all between the two tokens")
def one_decay_for_a_row(Q, K, alpha):
    one = torch.eye(len(K))
    return (Q @ K.T * (one + (1 - one) * alpha[:, None])).tril()


@wrong("09.decays_as_a_matrix", "the gradient at alpha")
def zeros_are_raised(Q, K, alpha):
    log = alpha.clamp_min(1e-12).log().cumsum(0)
    return (Q @ K.T * (log[:, None] - log).tril().exp()).tril()


edit = edits("09.after_the_prompt")
edit("what the last chunk adds has decayed", "n - 1 - place", "size - 1 - place")
edit("what came before the last chunk has decayed", "gamma**n", "gamma**size")
edit("all of it has decayed as if", "n - 1 - place", "size - 1 - place", "gamma**n", "gamma**size")
edit("context[", "gamma**n * S", "gamma * S")
edit("context[", "place + 1", "place")
edit("context[", ").tril()", ")")
edit("expected the tuple (context, state)", "return torch.cat(out), S", "return torch.cat(out)")
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


@wrong("09.after_the_prompt", "nothing decays")
def nothing_decays(Q, K, V, gamma, size):
    S, out = torch.zeros(K.shape[1], V.shape[1]), []
    for q, k, v in zip(Q.split(size), K.split(size), V.split(size)):
        out.append(q @ S + (q @ k.T).tril() @ v)
        S = S + k.T @ v
    return torch.cat(out), S
