import torch

from ..collection import edits, wrong

edit = edits("06.model_size")
edit("counted three times", "vocabulary * d +", "3 * vocabulary * d +")
edit("counted twice", "vocabulary * d +", "2 * vocabulary * d +")
edit(
    "a str came back, expected one number",
    "return vocabulary * d + layers * (encoder_block + decoder_block)",
    'return f"{vocabulary * d + layers * (encoder_block + decoder_block):,}"',
)


edit = edits("06.no_blocks")
edit("the factor √d is missing", "2 * 0.5 + 0", "0.5 + 0", "2 * 0.5", "0.5", "2 * -0.5", "-0.5")
edit("the position is missing", "2 * 0.5 + 1", "2 * 0.5", "2 * -0.5 + 1", "2 * -0.5")
edit("begin with the four numbers", "return exp(le)", "return 0.1 * exp(le)")

edit = edits("06.turned_around")
edit("expected one of", "for none", "none")
edit("expected one of", '"for none"', "0.0")
edit("None came back", '"for none"', "None")


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


edit = edits("06.whole_model")
edit("y has one row more than the target", "target[:, :-1]", "target", "P[:m]", "P[:m + 1]")
edit("decoder(…): mask lets everything through", ".tril()", "")
edit("decoder(…): mask is upside down", ".tril()", ".triu(1)")
edit("decoder(…): mask is transposed", ".tril()", ".triu()")
edit("hides each position from itself", ".tril()", ".tril(-1)")
edit("lets each position see the one after it", ".tril()", ".tril(1)")
edit("encoder(x, mask): mask lets everything through", "(torch…", "(source >= 0).unsqueeze(1)")
edit("encoder(x, mask): mask is upside down", "torch.arange…", "source == 0).unsqueeze(1)")
edit("put in a dimension for the queries", "(torch…", "source != 0")
edit("expected a boolean tensor", ".bool()", "")
edit("the vectors of the decoder came back", "torch.log_softmax(s @ E.T, dim=-1)", "s")
edit("decoder was never called", "(s @ E…", "(memory @ E.T, dim=-1)[:, :m]", "s = decoder…", "")
edit("the gradient at E is not", "E[source]…", "(E[source] * d**0.5 + P[:n]).detach(), words)")


@wrong("06.whole_model", "the encoder is called more than once")
def token_by_token(E, P, encoder, decoder, source, lengths, target):
    whole = [
        _model(E, P, encoder, decoder, source, lengths, target) for _ in range(target.shape[1])
    ]
    return torch.stack([part[:, t] for t, part in enumerate(whole)], 1)
