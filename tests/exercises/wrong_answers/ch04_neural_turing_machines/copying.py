import torch

from ..collection import edits, wrong

edit = edits("04.no_delimiter")
edit("expected one of", "say the list one step late", "say the list one step early")
edit("expected one of", "say the list one step late", "late")
edit("one of 'wait for ever'", '"say the list one step late"', "1")

edit = edits("04.copy_task")
edit("mask: the dtype is float32, expected bool", "(2 * n + 1) > n", "(2 * n + 1) > n).float(")
edit("inputs: the shape is", "return inputs,", "return inputs[..., :-1],")
edit("a vector of zeros has to be said, too", "(torch.arange(2 * n + 1) > n)…", "targets.any(-1)")


edit = edits("04.training_bill")
edit("the longest lists, not that of lists on average", "(2 * 20 + 1)", "(2 * 10.5 + 1)")
edit("lengths from 1 to 20 are 10.5 on average", "10.5", "20")
edit("the bytes of the weights is not 2.12", "13_260", "1_326_000")


edit = edits("04.bits")
edit(
    "log(0) is -inf",
    "torch.nn.functional.softplus(-z)",
    "-torch.where(targets == 1, logits.sigmoid(), 1 - logits.sigmoid()).log()",
)
edit("a model could not learn through them", "softplus(-z)", "softplus(-z.detach())")
edit(
    "the gradient at logits is not finite",
    "torch.nn.functional.softplus(-z)",
    "torch.where(z < -60, -z, torch.log1p(torch.exp(-z)))",
)
edit(
    "e to the power of some hundreds is inf", "torch.nn…", "(1 + torch.exp(-z)).log() / math.log(2)"
)
edit("costs: the shape is ()", ".sum(dim=(1, 2))", ".sum()")


edit = edits("04.follow")
edit("your function returns", "return best, most", "return best")
edit("the last delay that fits, T − n, is never tried", "len(looked) - n + 1", "len(looked) - n")
edit(
    "None came back as the delay where nothing hits",
    "return best, most",
    "return (best if most > 0 else None), most",
)


edit = edits("04.best_predictor")
edit("0/0", "(seen[1] + 0.5)…", 'seen[1] / (seen[0] + seen[1]) if any(seen) else float("nan"))')
edit("A tuple of tensors is a new key each time", "told = bits.tolist(), {}", "told = bits, {}")
edit("the context is n − 2 bits long", "row, counts", "n = max(1, n - 1)\n    row, counts")


def _program(phase, vector):
    _, stay, step = torch.eye(3)
    if phase == "store":
        return (0.0, stay), (0.0, step, torch.ones_like(vector), vector)
    return (0.0, stay if phase == "turn" else step), (0.0, stay, 0 * vector, 0 * vector)


edit = edits("04.program")
edit("no distribution", "(0.0, step,", "(0.0, stay + step,")
edit("expected a number from 0 to 1", "(0.0,", "(2.0,")
edit("expected the tuple (gate, shift, erase, add)", ", vector)", ")", "nothing, ", "")


_TURNED = []


@wrong("04.program", "your program remembers something between calls")
def phase_in_a_global(phase, vector):
    if phase == "turn":
        _TURNED.append(phase)
        return _program(phase, vector)
    if vector.any():
        _TURNED.clear()
    return _program("recall" if _TURNED else "store", vector)
