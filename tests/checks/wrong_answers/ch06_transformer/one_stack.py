import torch
from torch.nn.functional import cross_entropy

from ..collection import wrong


def _read(tokens, asked, kind, other, mask, low=0.8, high=0.9):
    return torch.where(
        asked & (kind < low), mask, torch.where(asked & (kind < high), other, tokens)
    )


@wrong("06.hide_words", "it holds every word")
def all_asked(tokens, chosen, kind, other, mask):
    return _read(tokens, chosen & (tokens != 0), kind, other, mask), tokens.clone()


@wrong("06.hide_words", "replaced otherwise, or left, are asked for too")
def masked_asked(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    return _read(tokens, asked, kind, other, mask), tokens * (asked & (kind < 0.8))


@wrong("06.hide_words", "the words as the model reads them")
def target_as_read(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    read = _read(tokens, asked, kind, other, mask)
    return read, read * asked


@wrong("06.hide_words", "padding is replaced")
def padding_hidden(tokens, chosen, kind, other, mask):
    return _read(tokens, chosen, kind, other, mask), tokens * chosen


@wrong("06.hide_words", "every chosen word is masked")
def always_masked(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    return tokens.masked_fill(asked, mask), tokens * asked


@wrong("06.hide_words", "words that are not chosen are replaced")
def all_replaced(tokens, chosen, kind, other, mask):
    return _read(tokens, tokens != 0, kind, other, mask), tokens * chosen


@wrong("06.hide_words", "from 0.9 on the word itself")
def last_tenth_random(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    return torch.where(
        asked & (kind < 0.8), mask, torch.where(asked & (kind >= 0.9), other, tokens)
    ), tokens * asked


@wrong("06.hide_words", "from 0.9 on the word stays")
def never_left(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    return _read(tokens, asked, kind, other, mask, high=2.0), tokens * asked


@wrong("06.hide_words", "it is the other way round")
def shares_exchanged(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    return torch.where(
        asked & (kind < 0.8), other, torch.where(asked & (kind < 0.9), mask, tokens)
    ), tokens * asked


@wrong("06.hide_words", "the borders are off")
def borders(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    return torch.where(
        asked & (kind <= 0.8), mask, torch.where(asked & (kind <= 0.9), other, tokens)
    ), tokens * asked


@wrong("06.hide_words", "expected 0, as padding")
def hundred(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    return _read(tokens, asked, kind, other, mask), tokens.masked_fill(~asked, -100)


@wrong("06.hide_words", "changes its argument tokens in place")
def hide_in_place(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    target = tokens * asked
    tokens[asked & (kind < 0.8)] = mask
    return torch.where(asked & (kind >= 0.8) & (kind < 0.9), other, tokens), target


@wrong("06.hide_words", "read and target are exchanged")
def hidden_exchanged(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    return tokens * asked, _read(tokens, asked, kind, other, mask)


@wrong("06.hide_words", "words that were chosen and stay as they are are missing")
def changed_asked(tokens, chosen, kind, other, mask):
    read = _read(tokens, chosen & (tokens != 0), kind, other, mask)
    return read, tokens * (read != tokens)


@wrong("06.hide_words", "the second replacement overwrites the mask")
def one_after_the_other(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    read = torch.where(asked & (kind < 0.8), mask, tokens)
    return torch.where(asked & (kind < 0.9), other, read), tokens * asked


def _mean(logits, wanted, **options):
    return cross_entropy(logits.flatten(0, 1), wanted.flatten(), **{"ignore_index": 0, **options})


@wrong("06.next_word_loss", "word t, which it has just read")
def not_shifted(logits, tokens):
    return _mean(logits, tokens)


@wrong("06.next_word_loss", "compared with word t − 1")
def shifted_back(logits, tokens):
    return _mean(logits[:, 1:], tokens[:, :-1])


@wrong("06.next_word_loss", "compared with word t + 2")
def shifted_twice(logits, tokens):
    return _mean(logits[:, :-2], tokens[:, 2:])


@wrong("06.next_word_loss", "roll goes round")
def rolled(logits, tokens):
    return _mean(logits, tokens.roll(-1, 1))


@wrong("06.next_word_loss", "padding counts")
def padding_counts(logits, tokens):
    return _mean(logits[:, :-1], tokens[:, 1:], ignore_index=-100)


@wrong("06.next_word_loss", "the number of all places")
def all_places(logits, tokens):
    return _mean(logits[:, :-1], tokens[:, 1:], reduction="none").mean()


@wrong("06.next_word_loss", "the first one is never told")
def all_words(logits, tokens):
    return _mean(logits[:, :-1], tokens[:, 1:], reduction="sum") / (tokens != 0).sum()


@wrong("06.next_word_loss", "it is a sum")
def summed(logits, tokens):
    return _mean(logits[:, :-1], tokens[:, 1:], reduction="sum")


@wrong("06.next_word_loss", "a word of a short text must not weigh more")
def mean_of_means(logits, tokens):
    return torch.stack([_mean(z[None, :-1], t[None, 1:]) for z, t in zip(logits, tokens)]).mean()


@wrong("06.next_word_loss", "the softmax is taken twice")
def two_softmaxes(logits, tokens):
    return _mean(logits[:, :-1].softmax(-1), tokens[:, 1:])


@wrong("06.next_word_loss", "it is in bits")
def bits(logits, tokens):
    return _mean(logits[:, :-1], tokens[:, 1:]) / torch.log(torch.tensor(2.0))


@wrong("06.next_word_loss", "what follows the last word of a text is counted")
def mask_of_the_words_read(logits, tokens):
    terms, there = (
        cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none"),
        tokens[:, :-1] != 0,
    )
    return (terms * there).sum() / there.sum()


@wrong("06.next_word_loss", "classes and the places are mixed up")
def classes_last(logits, tokens):
    return cross_entropy(logits[:, :-1], tokens[:, 1:], ignore_index=0)


@wrong("06.next_word_loss", "the sign is wrong")
def wrong_sign(logits, tokens):
    return -_mean(logits[:, :-1], tokens[:, 1:])


@wrong("06.next_word_loss", "one number for the whole batch")
def a_number_a_word(logits, tokens):
    return _mean(logits[:, :-1], tokens[:, 1:], reduction="none")


@wrong("06.next_word_loss", "gradient")
def loss_detached(logits, tokens):
    return _mean(logits[:, :-1], tokens[:, 1:]).detach()
