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
edit("read and target are exchanged", "return read, target", "return target, read")
edit("below 0.8 there is another word, too", ".masked_fill(asked & (kind < 0.8), mask)", "")


@wrong("06.hide_words", "changes its argument tokens in place")
def hide_in_place(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    target = tokens * asked
    tokens[asked & (kind < 0.8)] = mask
    return torch.where(asked & (kind >= 0.8) & (kind < 0.9), other, tokens), target


edit = edits("06.next_word_loss")
edit("the sign is wrong", "return", "return -")
edit("one number for the whole batch", "ignore_index=0", 'ignore_index=0, reduction="none"')
edit("gradient", "ignore_index=0)", "ignore_index=0).detach()")
