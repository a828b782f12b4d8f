import torch

from ..collection import wrong


def _reverse(source, lengths, extra=0):
    result = source.clone()
    for row, length in enumerate(lengths.tolist()):
        stop = min(length + extra, source.shape[1])
        result[row, :stop] = source[row, :stop].flip(0)
    return result


@wrong("01.reverse_padded", "the padding comes first now")
def flips_all(source, lengths):
    return source.flip(1)


@wrong("01.reverse_padded", "one too long")
def takes_padding(source, lengths):
    return _reverse(source, lengths, 1)


@wrong("01.reverse_padded", "one too short")
def leaves_last(source, lengths):
    return _reverse(source, lengths, -1)


@wrong("01.reverse_padded", "the batch is reversed")
def flips_batch(source, lengths):
    return source.flip(0)


@wrong("01.reverse_padded", "filled with 0")
def fills_zero(source, lengths):
    real = torch.arange(source.shape[1]) < lengths[:, None]
    return _reverse(source, lengths) * real


@wrong("01.reverse_padded", "changes its argument source in place")
def in_place(source, lengths):
    source.copy_(_reverse(source, lengths))
    return source


@wrong("01.reverse_padded", "the length of the first source")
def one_length(source, lengths):
    return torch.cat((source[:, : lengths[0]].flip(1), source[:, lengths[0] :]), 1)
