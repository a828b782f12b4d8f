import torch

from ..collection import edits, wrong


def _by_hand(numbers, strength=40.0, flags=(1, 2), join=None, keys_of_numbers=0.0):
    """Matrices of two heads; head i looks for the flag ``flags[i]`` with its key's first column."""
    d = numbers + 3
    W_q, W_k, W_v = (
        torch.zeros(1, 2 * numbers),
        torch.zeros(d, 2 * numbers),
        torch.zeros(d, 2 * numbers),
    )
    for i, flag in enumerate(flags):
        first = i * numbers
        W_q[0, first] = strength
        W_k[numbers + flag, first] = 1
        W_k[:numbers, first] = keys_of_numbers
        W_v[:numbers, first : first + numbers] = torch.eye(numbers)
    return W_q, W_k, W_v, torch.eye(2 * numbers) if join is None else join


edit = edits("03.unmix")
solution = "1 / (0.8 - 0.1)"
edit("head 2 has some of a as well", solution, "1 / 0.8")
edit("asked is what undoes it", solution, "0.7")
edit("drops out", solution, "1 / 0.6")
edit("each head has some of the other's card", solution, "1.0")
edit("in a difference 0.1 is taken from 0.8", solution, "1 / 0.9")
edit("write both contexts as sums", solution, "3.0")


edit = edits("03.how_many_heads")
edit("with 1 head", "4", "1")
edit("a head returns one average", "4", "2")
edit("a head has 1 of the 32 columns", "4", "32")
edit("expected one of 1, 2, 4", "4", "3")


edit = edits("03.two_heads")
edit("a larger query makes the softmax sharper", "20 * numbers**0.5", "4.0")
edit("W_q is 0", "20 *", "0 *")


@wrong("03.two_heads", "the numbers of the card B come first")
def b_first(numbers):
    return _by_hand(numbers, flags=(2, 1))


@wrong("03.two_heads", "both heads look at the card A")
def twice_a(numbers):
    return _by_hand(numbers, flags=(1, 1))


@wrong("03.two_heads", "looks past the flagged cards")
def looks_for_no_flag(numbers):
    return _by_hand(numbers, flags=(1, 0))


@wrong("03.two_heads", "looks past the flagged cards")
def pushed_away(numbers):
    return _by_hand(numbers, strength=-40.0)


@wrong("03.two_heads", "looks at both flagged cards")
def both_flags_in_one_head(numbers):
    W_q, W_k, W_v, W_o = _by_hand(numbers)
    W_k[numbers + 2, 0] = 1
    return W_q, W_k, W_v, W_o


@wrong("03.two_heads", "the scores of all cards are equal")
def no_key(numbers):
    W_q, W_k, W_v, W_o = _by_hand(numbers)
    return W_q, 0 * W_k, W_v, W_o


@wrong("03.two_heads", "the scores depend on the numbers of a card")
def key_of_the_whole_card(numbers):
    return _by_hand(numbers, keys_of_numbers=0.5)


@wrong("03.two_heads", "the contexts are 0")
def no_values(numbers):
    W_q, W_k, W_v, W_o = _by_hand(numbers)
    return W_q, W_k, 0 * W_v, W_o


@wrong("03.two_heads", "what do W_v and W_o make of the card")
def flags_for_values(numbers):
    W_q, W_k, W_v, W_o = _by_hand(numbers)
    return W_q, W_k, W_v.roll(3, 0), W_o


@wrong("03.two_heads", "what do W_v and W_o make of the card")
def contexts_added(numbers):
    eye = torch.eye(numbers)
    return _by_hand(numbers, join=torch.cat([torch.cat([eye, eye], 1)] * 2))


@wrong("03.two_heads", "the matrices are transposed")
def transposed_matrices(numbers):
    return tuple(W.T.clone() for W in _by_hand(numbers))


@wrong("03.two_heads", "W_k: the shape is")
def heads_share_a_key(numbers):
    W_q, W_k, W_v, W_o = _by_hand(numbers)
    return W_q, W_k[:, :numbers].clone(), W_v, W_o


edit = edits("03.multi_head")
edit("no gradient goes back", "@ W_o", "@ W_o.detach()", "(weights @ V)", "(weights @ V).detach()")
edit("no gradient reaches W_k", "W_k", "W_k.detach()")
edit("the gradient at source is not", "source @ W_v", "source.detach() @ W_v")
