from collections import OrderedDict, defaultdict

import numpy as np
import torch

from .collection import right, solution


@right("06.hide_words")
def word_by_word(tokens, chosen, kind, other, mask):
    read, target = tokens.clone(), torch.zeros_like(tokens)
    for b, row in enumerate(kind.tolist()):
        for i, k in enumerate(row):
            if chosen[b, i] and tokens[b, i] != 0:
                target[b, i] = tokens[b, i]
                if k < 0.8:
                    read[b, i] = mask
                elif k < 0.9:
                    read[b, i] = other[b, i]
    return read, target


@right("06.average_weights")
def ordered_dict(*given):
    return OrderedDict(solution("06.average_weights")(*given))


@right("06.filter_direction")
def default_dict(*given):
    result = defaultdict(lambda: None)
    result.update(solution("06.filter_direction")(*given))
    return result


@right("06.head_parameters")
def int_of_numpy(*given):
    return np.int64(solution("06.head_parameters")(*given))
