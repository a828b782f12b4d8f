import torch

from ..collection import edits, wrong

edits(
    "06.model_size",
    ("counted three times", "vocabulary * d +", "3 * vocabulary * d +"),
    ("counted twice", "vocabulary * d +", "2 * vocabulary * d +"),
    ("the matrix of the embeddings is missing", "vocabulary * d +", ""),
    (
        "counted like an encoder block",
        "decoder_block = 2 * attention + network + 3 * norm",
        "decoder_block = encoder_block",
    ),
    ("the attention over the source is missing", "2 * attention", "attention"),
    ("a decoder block has three norms", "3 * norm", "2 * norm"),
    (
        "the norms are missing",
        "norm = 4 * d * d, 2 * d * d_ff + d_ff + d, 2 * d",
        "norm = 4 * d * d, 2 * d * d_ff + d_ff + d, 0",
    ),
    ("you count one", "+ d, 2 * d", "+ d, d"),
    ("the biases of the feed-forward network are missing", "+ d_ff + d", "+ 0"),
    ("a second bias, of width d", "+ d_ff + d", "+ d_ff"),
    ("have no bias here", "4 * d * d", "4 * d * d + 4 * d"),
    ("you count three", "4 * d * d", "3 * d * d"),
    ("the decoder's blocks are missing", "(encoder_block + decoder_block)", "encoder_block"),
    ("expected as many as layers says", "layers *", ""),
    (
        "the output is the embedding matrix alone",
        "vocabulary * d +",
        "vocabulary * d + vocabulary +",
    ),
    ("a norm stands at the end of each stack", "vocabulary * d +", "vocabulary * d + 4 * d +"),
    (
        "a str came back, expected one number",
        "return vocabulary * d + layers * (encoder_block + decoder_block)",
        'return f"{vocabulary * d + layers * (encoder_block + decoder_block):,}"',
    ),
)


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


edits(
    "06.whole_model",
    ("the embeddings are not multiplied by √d", "* d**0.5", ""),
    ("multiplied by d: expected √d", "d**0.5", "d"),
    ("divided by √d", "* d**0.5", "/ d**0.5"),
    (
        "the positions are multiplied by √d too",
        "E[source] * d**0.5 + P[:n]",
        "(E[source] + P[:n]) * d**0.5",
        "E[read] * d**0.5 + P[:m]",
        "(E[read] + P[:m]) * d**0.5",
    ),
    ("no positions are added", "+ P[:n]", "", "+ P[:m]", ""),
    ("the decoder's input has no positions", "+ P[:m]", ""),
    (
        "row t sees the token that it has to predict",
        "torch.cat([torch.ones(batch, 1, dtype=torch.long), target[:, :-1]], dim=1)",
        "target",
    ),
    (
        "from its second token on",
        "torch.ones(batch, 1, dtype=torch.long), target[:, :-1]",
        "target[:, 1:], torch.ones(batch, 1, dtype=torch.long)",
    ),
    ("expected BOS (1)", "torch.ones(batch, 1", "torch.zeros(batch, 1"),
    ("y has one row more than the target", "target[:, :-1]", "target", "P[:m]", "P[:m + 1]"),
    ("decoder(…): mask lets everything through", ".tril()", ""),
    ("decoder(…): mask is upside down", ".tril()", ".triu(1)"),
    ("decoder(…): mask is transposed", ".tril()", ".triu()"),
    ("hides each position from itself", ".tril()", ".tril(-1)"),
    ("lets each position see the one after it", ".tril()", ".tril(1)"),
    ("the positions of the decoder's input start at row 1", "P[:m]", "P[1:m + 1]"),
    ("the positions start at row 1 of P", "P[:n]", "P[1:n + 1]", "P[:m]", "P[1:m + 1]"),
    (
        "encoder(x, mask): mask lets everything through",
        "(torch.arange(n) < lengths.unsqueeze(1))",
        "(source >= 0)",
    ),
    (
        "encoder(x, mask): mask is upside down",
        "(torch.arange(n) < lengths.unsqueeze(1))",
        "(source == 0)",
    ),
    (
        "put in a dimension for the queries",
        "(torch.arange(n) < lengths.unsqueeze(1)).unsqueeze(1)",
        "source != 0",
    ),
    ("expected a boolean tensor", ".bool()", ""),
    (
        "its memory is the embedded source",
        "s = decoder(",
        "memory = E[source] * d**0.5 + P[:n]\n    s = decoder(",
    ),
    ("the logits came back", "torch.log_softmax(s @ E.T, dim=-1)", "s @ E.T"),
    ("probabilities came back", "torch.log_softmax", "torch.softmax"),
    ("runs over the positions", "dim=-1", "dim=1"),
    ("the factor belongs to the embeddings at the input", "s @ E.T", "s @ E.T * d**0.5"),
    (
        "the vectors of the decoder came back",
        "return torch.log_softmax(s @ E.T, dim=-1)",
        "return s",
    ),
    (
        "decoder was never called",
        "return torch.log_softmax(s @ E.T, dim=-1)",
        "return torch.log_softmax(memory @ E.T, dim=-1)[:, :m]",
        "s = decoder(E[read] * d**0.5 + P[:m], memory, past, words)",
        "",
    ),
    (
        "the gradient at E is not",
        "E[source] * d**0.5 + P[:n]",
        "(E[source] * d**0.5 + P[:n]).detach()",
    ),
)


@wrong("06.whole_model", "the encoder is called more than once")
def token_by_token(E, P, encoder, decoder, source, lengths, target):
    whole = [
        _model(E, P, encoder, decoder, source, lengths, target) for _ in range(target.shape[1])
    ]
    return torch.stack([part[:, t] for t, part in enumerate(whole)], 1)
