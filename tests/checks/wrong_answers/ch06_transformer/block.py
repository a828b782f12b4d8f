import torch

from ..collection import wrong


@wrong("06.layer_norm", "divided by d - 1")
def bessel(x, g, b, eps):
    return g * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + eps).sqrt() + b


@wrong("06.layer_norm", "eps is added to the standard deviation, which is also divided by d - 1")
def annotated(x, g, b, eps):
    return g * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + b


@wrong("06.layer_norm", "g and b are not used")
def bare(x, g, b, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps).sqrt()


@wrong("06.layer_norm", "it stands inside the root")
def eps_outside(x, g, b, eps):
    return g * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, correction=0) + eps) + b


@wrong("06.layer_norm", "eps is not used")
def no_eps(x, g, b, eps):
    return g * (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0) + b


@wrong("06.layer_norm", "run over the positions")
def over_positions(x, g, b, eps):
    return (
        g * (x - x.mean(-2, keepdim=True)) / (x.var(-2, keepdim=True, correction=0) + eps).sqrt()
        + b
    )


@wrong("06.layer_norm", "run over positions and features")
def over_the_sentence(x, g, b, eps):
    return (
        g
        * (x - x.mean((-2, -1), keepdim=True))
        / (x.var((-2, -1), keepdim=True, correction=0) + eps).sqrt()
        + b
    )


@wrong("06.layer_norm", "that is RMS norm")
def rms(x, g, b, eps):
    return g * x / (x.square().mean(-1, keepdim=True) + eps).sqrt() + b


@wrong("06.layer_norm", "not subtracted above the root")
def not_centred(x, g, b, eps):
    return g * x / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() + b


@wrong("06.layer_norm", "the root is missing")
def by_the_variance(x, g, b, eps):
    return g * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps) + b


@wrong("06.layer_norm", "the scale g is not used")
def no_scale(x, g, b, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() + b


@wrong("06.layer_norm", "the shift b is not added")
def no_shift(x, g, b, eps):
    return g * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps).sqrt()


@wrong("06.layer_norm", "it is added last")
def b_times_g(x, g, b, eps):
    return g * (
        (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() + b
    )


@wrong("06.layer_norm", "the gradient at x is not")
def statistics_detached(x, g, b, eps):
    still = x.detach()
    return (
        g
        * (x - still.mean(-1, keepdim=True))
        / (still.var(-1, keepdim=True, correction=0) + eps).sqrt()
        + b
    )


@wrong("06.layer_norm", "changes its argument x in place")
def in_place(x, g, b, eps):
    x -= x.mean(-1, keepdim=True)
    return g * x / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() + b


def _rows(w, d):
    return (
        d.flatten(1)
        / d.flatten(1).norm(dim=1, keepdim=True)
        * w.flatten(1).norm(dim=1, keepdim=True)
    )


def _direction(weights, noise, scale, thin=lambda w, d: torch.zeros_like(d)):
    return {
        name: thin(w, noise[name]) if w.dim() < 2 else scale(w, noise[name]).view_as(w)
        for name, w in weights.items()
    }


@wrong("06.filter_direction", "the noise comes back as it was")
def only_noise(weights, noise):
    return dict(noise)


@wrong("06.filter_direction", "the whole matrix is scaled as one: expected each row")
def layer_wise(weights, noise):
    return _direction(weights, noise, lambda w, d: d / d.norm() * w.norm())


@wrong("06.filter_direction", "the whole matrix is scaled as one, and biases are not 0")
def layer_wise_everything(weights, noise):
    return {name: noise[name] / noise[name].norm() * w.norm() for name, w in weights.items()}


@wrong("06.filter_direction", "columns are scaled")
def columns(weights, noise):
    return _direction(
        weights, noise, lambda w, d: d / d.norm(dim=0, keepdim=True) * w.norm(dim=0, keepdim=True)
    )


@wrong("06.filter_direction", "only the last dimension is taken for a filter")
def last_dimension(weights, noise):
    return _direction(
        weights, noise, lambda w, d: d / d.norm(dim=-1, keepdim=True) * w.norm(dim=-1, keepdim=True)
    )


@wrong("06.filter_direction", "only the second dimension is taken for a filter")
def second_dimension(weights, noise):
    return _direction(
        weights, noise, lambda w, d: d / d.norm(dim=1, keepdim=True) * w.norm(dim=1, keepdim=True)
    )


@wrong("06.filter_direction", "every row has length 1")
def unit_rows(weights, noise):
    return _direction(
        weights, noise, lambda w, d: d.flatten(1) / d.flatten(1).norm(dim=1, keepdim=True)
    )


@wrong("06.filter_direction", "not brought to length 1 first")
def not_normalised(weights, noise):
    return _direction(
        weights, noise, lambda w, d: d.flatten(1) * w.flatten(1).norm(dim=1, keepdim=True)
    )


@wrong("06.filter_direction", "squares of lengths")
def squares(weights, noise):
    return _direction(
        weights,
        noise,
        lambda w, d: (
            d.flatten(1)
            / d.flatten(1).square().sum(1, keepdim=True)
            * w.flatten(1).square().sum(1, keepdim=True)
        ),
    )


@wrong("06.filter_direction", "left as noise")
def biases_as_noise(weights, noise):
    return _direction(weights, noise, _rows, lambda w, d: d.clone())


@wrong("06.filter_direction", "tensors of one dimension are scaled too")
def biases_scaled(weights, noise):
    return _direction(weights, noise, _rows, lambda w, d: d / d.norm() * w.norm())


@wrong("06.filter_direction", "biases and norms are in it too")
def biases_left_out(weights, noise):
    return {name: _rows(w, noise[name]).view_as(w) for name, w in weights.items() if w.dim() > 1}


@wrong("06.filter_direction", "a filter of zeros")
def upside_down(weights, noise):
    return _direction(
        weights,
        noise,
        lambda w, d: (
            _rows(w, d)
            * w.flatten(1).norm(dim=1, keepdim=True)
            / w.flatten(1).norm(dim=1, keepdim=True)
        ),
    )


@wrong("06.filter_direction", "expected a dict")
def a_list(weights, noise):
    return list(_direction(weights, noise, _rows).values())


def _feed(h, w_1, b_1, w_2, b_2, relu=torch.relu):
    return relu(h @ w_1.T + b_1) @ w_2.T + b_2


@wrong("06.encoder_block", "with pre_norm=True your block is post-norm")
def always_post(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    x = norm_1(x + attention(x))
    return norm_2(x + _feed(x, w_1, b_1, w_2, b_2))


@wrong("06.encoder_block", "with pre_norm=False your block is pre-norm")
def always_pre(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    x = x + attention(norm_1(x))
    return x + _feed(norm_2(x), w_1, b_1, w_2, b_2)


def _block(
    x,
    attention,
    norm_1,
    norm_2,
    w_1,
    b_1,
    w_2,
    b_2,
    pre_norm,
    first=1,
    second=1,
    relu=torch.relu,
    base=lambda x, u: u,
):
    def feed(h):
        return _feed(h, w_1, b_1, w_2, b_2, relu)

    if pre_norm:
        u = first * x + attention(norm_1(x))
        return second * base(x, u) + feed(norm_2(u))
    u = norm_1(first * x + attention(x))
    return norm_2(second * base(x, u) + feed(u))


@wrong("06.encoder_block", "no residual around the attention")
def no_first(*inputs):
    return _block(*inputs, first=0)


@wrong("06.encoder_block", "no residual around the feed-forward network")
def no_second(*inputs):
    return _block(*inputs, second=0)


@wrong("06.encoder_block", "there are no residuals")
def none_at_all(*inputs):
    return _block(*inputs, first=0, second=0)


@wrong("06.encoder_block", "adds the block's input x")
def first_x_again(*inputs):
    return _block(*inputs, base=lambda x, u: x)


@wrong("06.encoder_block", "the feed-forward network reads the block's input x")
def side_by_side(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    if pre_norm:
        return x + attention(norm_1(x)) + _feed(norm_2(x), w_1, b_1, w_2, b_2)
    return norm_2(norm_1(x + attention(x)) + _feed(x, w_1, b_1, w_2, b_2))


@wrong("06.encoder_block", "the ReLU is missing")
def no_relu(*inputs):
    return _block(*inputs, relu=lambda a: a)


@wrong("06.encoder_block", "the two norms are swapped")
def norms_swapped(x, attention, norm_1, norm_2, *rest):
    return _block(x, attention, norm_2, norm_1, *rest)


@wrong("06.encoder_block", "norm_1 is used twice")
def one_norm(x, attention, norm_1, norm_2, *rest):
    return _block(x, attention, norm_1, norm_1, *rest)


@wrong("06.encoder_block", "the norms are not used")
def no_norms(x, attention, norm_1, norm_2, *rest):
    return _block(x, attention, lambda h: h, lambda h: h, *rest)


@wrong("06.encoder_block", "the norm stands on the branch alone")
def residual_behind_the_norm(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    x = x + norm_1(attention(x))
    return x + norm_2(_feed(x, w_1, b_1, w_2, b_2))


@wrong("06.encoder_block", "the residual adds the normalised stream")
def normalised_residual(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    if not pre_norm:
        return _block(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, False)
    x = norm_1(x)
    u = norm_2(x + attention(x))
    return u + _feed(u, w_1, b_1, w_2, b_2)


@wrong("06.encoder_block", "reads the stream without a norm")
def second_norm_forgotten(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    if not pre_norm:
        return _block(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, False)
    u = x + attention(norm_1(x))
    return u + _feed(u, w_1, b_1, w_2, b_2)


@wrong("06.encoder_block", "no norm at the end of the block")
def norm_at_the_end(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    y = _block(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm)
    return norm_2(y) if pre_norm else y


@wrong("06.encoder_block", "the biases b_1 and b_2 are not added")
def no_biases(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    return _block(x, attention, norm_1, norm_2, w_1, 0 * b_1, w_2, 0 * b_2, pre_norm)


@wrong("06.encoder_block", "no gradient reaches w_1")
def hidden_detached(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    return _block(x, attention, norm_1, norm_2, w_1.detach(), b_1, w_2, b_2, pre_norm)


@wrong("06.encoder_block", "the gradient at x is not")
def stream_detached(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    return _block(
        x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm, base=lambda x, u: u.detach()
    )


@wrong("06.encoder_block", "changes its argument x in place")
def stream_in_place(x, attention, norm_1, norm_2, w_1, b_1, w_2, b_2, pre_norm):
    x += attention(x) if not pre_norm else attention(norm_1(x))
    return (
        x + _feed(norm_2(x), w_1, b_1, w_2, b_2)
        if pre_norm
        else norm_2(norm_1(x) + _feed(norm_1(x), w_1, b_1, w_2, b_2))
    )
