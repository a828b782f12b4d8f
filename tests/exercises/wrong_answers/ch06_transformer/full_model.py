from ..collection import edits

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
edit(
    "the encoder is called more than once",
    "memory =",
    "for _ in target.T:\n        memory =",
    "s = dec",
    "for _ in target.T:\n        s = dec",
)
