import torch

from ..collection import edits, wrong

edit = edits("06.perplexity_by_hand")
edit("the mean loss in nats", "2**2.5", "1.7329")
edit("the mean loss in bits", "2**2.5", "2.5")
edit("the perplexity is not 4", "2**2.5", "4.0")

edit = edits("06.nothing_hidden")
edit("your prediction", '"about a tenth"', '"all"')
edit("your prediction", '"about a tenth"', "0.1")
edit("your prediction", '"about a tenth"', "None")

edit = edits("06.hide_words")
edit("it holds every word", "return read, target", "return read, tokens.clone()")
edit("replaced otherwise, or left, are asked for too", "~asked", "~asked | (kind >= 0.8)")
edit("the words as the model reads them", "return read, target", "return read, read * asked")
edit("padding is replaced", "chosen & (tokens != 0)", "chosen")
edit("every chosen word is masked", "asked & (kind < 0.8)", "asked")
edit("words that are not chosen are replaced", "asked &", "(tokens != 0) &", "~asked", "~chosen")
edit("from 0.9 on the word itself", "kind < 0.9", "kind >= 0.9")
edit("from 0.9 on the word stays", "kind < 0.9", "kind < 2")
edit(
    "it is the other way round",
    "torch.where(asked & (kind < 0.9), other, tokens).masked_fill(asked & (kind < 0.8), mask)",
    "torch.where(asked & (kind < 0.8), other, tokens.masked_fill(asked & (kind < 0.9), mask))",
)
edit("the borders are off", "kind <", "kind <=")
edit("expected 0, as padding", "~asked, 0", "~asked, -100")
edit("read and target are exchanged", "return read, target", "return target, read")
edit(
    "words that were chosen and stay as they are are missing",
    "return read, target",
    "return read, tokens * (read != tokens)",
)
edit("below 0.8 there is another word, too", ".masked_fill(asked & (kind < 0.8), mask)", "")


@wrong("06.hide_words", "changes its argument tokens in place")
def hide_in_place(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    target = tokens * asked
    tokens[asked & (kind < 0.8)] = mask
    return torch.where(asked & (kind >= 0.8) & (kind < 0.9), other, tokens), target


edit = edits("06.next_word_loss")
edit("word t, which it has just read", "logits[:, :-1], tokens[:, 1:]", "logits, tokens")
edit("compared with word t − 1", "logits[:, :-1], tokens[:, 1:]", "logits[:, 1:], tokens[:, :-1]")
edit("compared with word t + 2", "logits[:, :-1], tokens[:, 1:]", "logits[:, :-2], tokens[:, 2:]")
edit("roll goes round", "logits[:, :-1], tokens[:, 1:]", "logits, tokens.roll(-1, 1)")
edit("padding counts", ", ignore_index=0", "")
edit("the number of all places", "ignore_index=0)", 'ignore_index=0, reduction="none").mean()')
edit(
    "the first one is never told",
    "ignore_index=0)",
    'ignore_index=0, reduction="sum") / (tokens != 0).sum()',
)
edit("it is a sum", "ignore_index=0", 'ignore_index=0, reduction="sum"')
edit(
    "a word of a short text must not weigh more",
    "rows.flatten(0, 1), wanted.flatten(), ignore_index=0)",
    'rows.mT, wanted, ignore_index=0, reduction="none").sum(1).div((wanted > 0).sum(1)).mean()',
)
edit("the softmax is taken twice", "rows.flatten(0, 1)", "rows.flatten(0, 1).softmax(-1)")
edit("it is in bits", "ignore_index=0)", "ignore_index=0) / torch.log(torch.tensor(2.0))")
edit(
    "what follows the last word of a text is counted",
    "wanted = logits[:, :-1], tokens[:, 1:]",
    "wanted = logits[:, :-1], tokens[:, 1:].masked_fill(tokens[:, :-1] == 0, -100)",
    "ignore_index=0",
    "ignore_index=-100",
)
edit("classes and the places are mixed up", "rows.flatten(0, 1), wanted.flatten()", "rows, wanted")
edit("the sign is wrong", "return", "return -")
edit("one number for the whole batch", "ignore_index=0", 'ignore_index=0, reduction="none"')
edit("gradient", "ignore_index=0)", "ignore_index=0).detach()")
