import numpy as np
import torch

from .collection import right, solution


@right("04.program")
def whole_numbers(phase, vector):
    stay, step = torch.tensor([0, 1, 0]), torch.tensor([0, 0, 1])
    if phase == "store":
        return (0, stay), (0, step, torch.ones(len(vector), dtype=torch.long), vector)
    none = torch.zeros(len(vector))
    return (0, step if phase == "recall" else stay), (0, stay, none, none)


@right("04.best_predictor")
def float64_of_numpy(bits, n):
    return torch.from_numpy(np.array(solution("04.best_predictor")(bits, n), dtype=np.float64))
