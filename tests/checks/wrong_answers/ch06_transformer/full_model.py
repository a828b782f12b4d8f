import torch

from ..collection import wrong


def _size(
    vocabulary,
    d,
    d_ff,
    layers,
    *,
    words=1,
    cross=1,
    norms=3,
    vectors=2,
    biases=None,
    attention=None,
    decoder=1,
    more=0,
):
    attention = 4 * d * d if attention is None else attention
    network = 2 * d * d_ff + (d_ff + d if biases is None else biases)
    blocks = (
        attention
        + network
        + 2 * vectors * d
        + decoder * ((1 + cross) * attention + network + norms * vectors * d)
    )
    return words * vocabulary * d + layers * blocks + more


@wrong("06.model_size", "counted three times")
def three_matrices(*sizes):
    return _size(*sizes, words=3)


@wrong("06.model_size", "counted twice")
def two_matrices(*sizes):
    return _size(*sizes, words=2)


@wrong("06.model_size", "the matrix of the embeddings is missing")
def no_words(*sizes):
    return _size(*sizes, words=0)


@wrong("06.model_size", "counted like an encoder block")
def equal_blocks(*sizes):
    return _size(*sizes, cross=0, norms=2)


@wrong("06.model_size", "the attention over the source is missing")
def no_cross_attention(*sizes):
    return _size(*sizes, cross=0)


@wrong("06.model_size", "a decoder block has three norms")
def two_norms(*sizes):
    return _size(*sizes, norms=2)


@wrong("06.model_size", "the norms are missing")
def no_norms(*sizes):
    return _size(*sizes, vectors=0)


@wrong("06.model_size", "you count one")
def gains_alone(*sizes):
    return _size(*sizes, vectors=1)


@wrong("06.model_size", "the biases of the feed-forward network are missing")
def no_biases(*sizes):
    return _size(*sizes, biases=0)


@wrong("06.model_size", "a second bias, of width d")
def one_bias(vocabulary, d, d_ff, layers):
    return _size(vocabulary, d, d_ff, layers, biases=d_ff)


@wrong("06.model_size", "have no bias here")
def attention_with_bias(vocabulary, d, d_ff, layers):
    return _size(vocabulary, d, d_ff, layers, attention=4 * d * d + 4 * d)


@wrong("06.model_size", "you count three")
def no_output_projection(vocabulary, d, d_ff, layers):
    return _size(vocabulary, d, d_ff, layers, attention=3 * d * d)


@wrong("06.model_size", "the decoder's blocks are missing")
def encoder_alone(*sizes):
    return _size(*sizes, decoder=0)


@wrong("06.model_size", "expected as many as layers says")
def one_layer(vocabulary, d, d_ff, layers):
    return _size(vocabulary, d, d_ff, 1)


@wrong("06.model_size", "the output is the embedding matrix alone")
def output_bias(vocabulary, *sizes):
    return _size(vocabulary, *sizes, more=vocabulary)


@wrong("06.model_size", "a norm stands at the end of each stack")
def final_norms(vocabulary, d, d_ff, layers):
    return _size(vocabulary, d, d_ff, layers, more=4 * d)


@wrong("06.model_size", "a str came back, expected one number")
def text(*sizes):
    return f"{_size(*sizes):,}"


def _model(
    E,
    P,
    encoder,
    decoder,
    source,
    lengths,
    target,
    *,
    factor=None,
    shift=lambda t: torch.cat([torch.ones_like(t[:, :1]), t[:, :-1]], 1),
    source_places=1,
    target_places=1,
    past=None,
    words=None,
    memory=None,
    end=lambda s, E: (s @ E.T).log_softmax(-1),
):
    n, m, d = source.shape[1], target.shape[1], E.shape[1]
    factor = d**0.5 if factor is None else factor
    words = (torch.arange(n) < lengths[:, None])[:, None] if words is None else words
    past = torch.ones(m, m, dtype=torch.bool).tril() if past is None else past
    x = E[source] * factor + source_places * P[:n]
    z = encoder(x, words)
    read = shift(target)
    return end(
        decoder(
            E[read] * factor + target_places * P[: read.shape[1]],
            z if memory is None else memory(x, z),
            past,
            words,
        ),
        E,
    )


@wrong("06.whole_model", "the embeddings are not multiplied by √d")
def not_scaled(*given):
    return _model(*given, factor=1.0)


@wrong("06.whole_model", "multiplied by d: expected √d")
def scaled_by_d(E, *rest):
    return _model(E, *rest, factor=E.shape[1])


@wrong("06.whole_model", "divided by √d")
def divided(E, *rest):
    return _model(E, *rest, factor=E.shape[1] ** -0.5)


@wrong("06.whole_model", "the positions are multiplied by √d too")
def sum_scaled(E, P, *rest):
    return _model(E, P * E.shape[1] ** 0.5, *rest)


@wrong("06.whole_model", "no positions are added")
def no_positions(*given):
    return _model(*given, source_places=0, target_places=0)


@wrong("06.whole_model", "the decoder's input has no positions")
def target_without_positions(*given):
    return _model(*given, target_places=0)


@wrong("06.whole_model", "row t sees the token that it has to predict")
def not_shifted(*given):
    return _model(*given, shift=lambda t: t)


@wrong("06.whole_model", "from its second token on")
def shifted_ahead(*given):
    return _model(*given, shift=lambda t: torch.cat([t[:, 1:], torch.ones_like(t[:, :1])], 1))


@wrong("06.whole_model", "expected BOS (1)")
def begins_with_padding(*given):
    return _model(*given, shift=lambda t: torch.cat([torch.zeros_like(t[:, :1]), t[:, :-1]], 1))


@wrong("06.whole_model", "y has one row more than the target")
def one_row_more(*given):
    return _model(*given, shift=lambda t: torch.cat([torch.ones_like(t[:, :1]), t], 1))


@wrong("06.whole_model", "decoder(…): mask lets everything through")
def no_causal_mask(*given):
    return _model(*given, past=torch.ones(given[-1].shape[1], given[-1].shape[1], dtype=torch.bool))


@wrong("06.whole_model", "decoder(…): mask is upside down")
def hides_the_past(*given):
    return _model(
        *given, past=torch.ones(given[-1].shape[1], given[-1].shape[1], dtype=torch.bool).triu(1)
    )


@wrong("06.whole_model", "decoder(…): mask is transposed")
def sees_the_future(*given):
    return _model(
        *given, past=torch.ones(given[-1].shape[1], given[-1].shape[1], dtype=torch.bool).triu()
    )


@wrong("06.whole_model", "hides each position from itself")
def sees_the_past_alone(*given):
    return _model(
        *given, past=torch.ones(given[-1].shape[1], given[-1].shape[1], dtype=torch.bool).tril(-1)
    )


@wrong("06.whole_model", "lets each position see the one after it")
def sees_the_next_one(*given):
    return _model(
        *given, past=torch.ones(given[-1].shape[1], given[-1].shape[1], dtype=torch.bool).tril(1)
    )


@wrong("06.whole_model", "the positions of the decoder's input start at row 1")
def target_from_one(E, P, encoder, decoder, *rest):
    return _model(
        E,
        P,
        encoder,
        lambda y, *more: decoder(y - P[: y.shape[1]] + P[1 : y.shape[1] + 1], *more),
        *rest,
    )


@wrong("06.whole_model", "the positions start at row 1 of P")
def positions_from_one(E, P, *rest):
    return _model(E, P[1:], *rest)


@wrong("06.whole_model", "encoder(x, mask): mask lets everything through")
def padding_seen(E, P, encoder, decoder, source, lengths, target):
    return _model(
        E,
        P,
        encoder,
        decoder,
        source,
        lengths,
        target,
        words=torch.ones(len(source), 1, source.shape[1], dtype=torch.bool),
    )


@wrong("06.whole_model", "encoder(x, mask): mask is upside down")
def mask_of_padding(E, P, encoder, decoder, source, lengths, target):
    return _model(E, P, encoder, decoder, source, lengths, target, words=(source == 0)[:, None])


@wrong("06.whole_model", "put in a dimension for the queries")
def mask_without_queries(E, P, encoder, decoder, source, lengths, target):
    return _model(E, P, encoder, decoder, source, lengths, target, words=source != 0)


@wrong("06.whole_model", "expected a boolean tensor")
def mask_of_numbers(*given):
    return _model(*given, past=torch.ones(given[-1].shape[1], given[-1].shape[1]).tril())


@wrong("06.whole_model", "its memory is the embedded source")
def source_as_memory(*given):
    return _model(*given, memory=lambda x, z: x)


@wrong("06.whole_model", "the logits came back")
def logits(*given):
    return _model(*given, end=lambda s, E: s @ E.T)


@wrong("06.whole_model", "probabilities came back")
def probabilities(*given):
    return _model(*given, end=lambda s, E: (s @ E.T).softmax(-1))


@wrong("06.whole_model", "runs over the positions")
def over_positions(*given):
    return _model(*given, end=lambda s, E: (s @ E.T).log_softmax(1))


@wrong("06.whole_model", "the factor belongs to the embeddings at the input")
def scaled_output(*given):
    return _model(*given, end=lambda s, E: (s @ E.T * E.shape[1] ** 0.5).log_softmax(-1))


@wrong("06.whole_model", "the vectors of the decoder came back")
def vectors(*given):
    return _model(*given, end=lambda s, E: s)


@wrong("06.whole_model", "decoder was never called")
def encoder_alone_called(E, P, encoder, decoder, source, lengths, target):
    z = encoder(
        E[source] * E.shape[1] ** 0.5 + P[: source.shape[1]],
        (torch.arange(source.shape[1]) < lengths[:, None])[:, None],
    )
    return (z @ E.T).log_softmax(-1)[:, : target.shape[1]]


@wrong("06.whole_model", "the gradient at E is not")
def frozen_source(E, P, encoder, decoder, source, lengths, target):
    return _model(E, P, lambda x, mask: encoder(x.detach(), mask), decoder, source, lengths, target)


@wrong("06.whole_model", "the encoder is called more than once")
def token_by_token(E, P, encoder, decoder, source, lengths, target):
    whole = [
        _model(E, P, encoder, decoder, source, lengths, target) for _ in range(target.shape[1])
    ]
    return torch.stack([part[:, t] for t, part in enumerate(whole)], 1)
