import torch

from ..collection import edits, wrong

edits(
    "06.hide_words",
    ("it holds every word", "return read, target", "return read, tokens.clone()"),
    (
        "replaced otherwise, or left, are asked for too",
        "target = tokens.masked_fill(~asked",
        "target = tokens.masked_fill(~asked | (kind >= 0.8)",
    ),
    ("the words as the model reads them", "return read, target", "return read, read * asked"),
    ("padding is replaced", "chosen & (tokens != 0)", "chosen"),
    ("every chosen word is masked", "asked & (kind < 0.8)", "asked"),
    (
        "words that are not chosen are replaced",
        "asked & (kind",
        "(tokens != 0) & (kind",
        "target = tokens.masked_fill(~asked",
        "target = tokens.masked_fill(~chosen",
    ),
    ("from 0.9 on the word itself", "kind < 0.9", "kind >= 0.9"),
    ("from 0.9 on the word stays", "kind < 0.9", "kind < 2"),
    (
        "it is the other way round",
        "torch.where(asked & (kind < 0.9), other, tokens).masked_fill(asked & (kind < 0.8), mask)",
        "torch.where(asked & (kind < 0.8), other, tokens.masked_fill(asked & (kind < 0.9), mask))",
    ),
    ("the borders are off", "kind <", "kind <="),
    ("expected 0, as padding", "~asked, 0", "~asked, -100"),
    ("read and target are exchanged", "return read, target", "return target, read"),
    (
        "words that were chosen and stay as they are are missing",
        "return read, target",
        "return read, tokens * (read != tokens)",
    ),
    (
        "the second replacement overwrites the mask",
        "torch.where(asked & (kind < 0.9), other, tokens).masked_fill(asked & (kind < 0.8), mask)",
        "torch.where(asked & (kind < 0.9), other, tokens)",
    ),
)


@wrong("06.hide_words", "changes its argument tokens in place")
def hide_in_place(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    target = tokens * asked
    tokens[asked & (kind < 0.8)] = mask
    return torch.where(asked & (kind >= 0.8) & (kind < 0.9), other, tokens), target


edits(
    "06.next_word_loss",
    ("word t, which it has just read", "logits[:, :-1], tokens[:, 1:]", "logits, tokens"),
    ("compared with word t − 1", "logits[:, :-1], tokens[:, 1:]", "logits[:, 1:], tokens[:, :-1]"),
    ("compared with word t + 2", "logits[:, :-1], tokens[:, 1:]", "logits[:, :-2], tokens[:, 2:]"),
    ("roll goes round", "logits[:, :-1], tokens[:, 1:]", "logits, tokens.roll(-1, 1)"),
    ("padding counts", ", ignore_index=0", ""),
    ("the number of all places", "ignore_index=0)", 'ignore_index=0, reduction="none").mean()'),
    (
        "the first one is never told",
        "ignore_index=0)",
        'ignore_index=0, reduction="sum") / (tokens != 0).sum()',
    ),
    ("it is a sum", "ignore_index=0", 'ignore_index=0, reduction="sum"'),
    (
        "a word of a short text must not weigh more",
        "rows.flatten(0, 1), wanted.flatten(), ignore_index=0)",
        'rows.mT, wanted, ignore_index=0, reduction="none").sum(1).div((wanted > 0).sum(1)).mean()',
    ),
    ("the softmax is taken twice", "rows.flatten(0, 1)", "rows.flatten(0, 1).softmax(-1)"),
    ("it is in bits", "ignore_index=0)", "ignore_index=0) / torch.log(torch.tensor(2.0))"),
    (
        "what follows the last word of a text is counted",
        "wanted = logits[:, :-1], tokens[:, 1:]",
        "wanted = logits[:, :-1], tokens[:, 1:].masked_fill(tokens[:, :-1] == 0, -100)",
        "ignore_index=0",
        "ignore_index=-100",
    ),
    ("classes and the places are mixed up", "rows.flatten(0, 1), wanted.flatten()", "rows, wanted"),
    ("the sign is wrong", "return", "return -"),
    ("one number for the whole batch", "ignore_index=0", 'ignore_index=0, reduction="none"'),
    ("gradient", "ignore_index=0)", "ignore_index=0).detach()"),
)
