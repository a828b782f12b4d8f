import numpy as np

from .collection import right, solution


@right("02.reads_a_set")
def truth_of_numpy(attention, states, mask):
    return np.all([solution("02.reads_a_set")(attention, states, mask)])
