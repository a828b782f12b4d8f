import torch

from ..collection import edits, wrong

edit = edits("04.confident")
edit("the model gave 1 − ⅞ to that", "7", "4.1926")
edit(" is not ", "7", "6")
edit("one number", "7", '"7"')

edit = edits("04.no_delimiter")
edit("expected one of", "say the list one step late", "say the list one step early")
edit("expected one of", "say the list one step late", "late")
edit("one of 'wait for ever'", '"say the list one step late"', "1")

edit = edits("04.copy_task")
edit("the vectors are shown again", "] = 1", "] = 1\n    inputs[:, n + 1:, :bits] = vectors")
edit("there is no delimiter", "inputs[:, n, bits] = 1", "inputs[:, n, bits] = 0")
edit("together with the last vector", "inputs[:, n, bits]", "inputs[:, n - 1, bits]")
edit("the delimiter is the first channel", "return inputs,", "return inputs.roll(1, -1),")
edit("the delimiter stays on", "inputs[:, n, bits]", "inputs[:, n:, bits]")
edit("the targets stand beside the inputs", "targets[:, n + 1:]", "targets[:, :n]")
edit("the targets begin at the delimiter", "targets[:, n + 1:]", "targets[:, n:-1]")
edit("the targets run backwards", "[:, n + 1:] = vectors", "[:, n + 1:] = vectors.flip(1)")
edit("all steps count", "> n)", "> -1)")
edit("the step of the delimiter counts", "> n)", ">= n)")
edit("the mask is the wrong way round", "> n)", "<= n)")
edit("mask: the dtype is float32, expected bool", "(2 * n + 1) > n", "(2 * n + 1) > n).float(")
edit("inputs: the shape is", "return inputs,", "return inputs[..., :-1],")
edit("a vector of zeros has to be said, too", "(torch.arange(2 * n + 1) > n)…", "targets.any(-1)")


edit = edits("04.bits")
edit("the costs are in nats", "/ math.log(2)", "")
edit("all steps are counted", "bits * mask.unsqueeze(-1)", "bits")
edit("the mask is the wrong way round", "mask.unsqueeze", "(~mask).unsqueeze")
edit("those of one bit on average", "dim=(1, 2)", "dim=(1, 2)) / (mask.sum(1) * targets.shape[2]")
edit("averaged over all steps", ".sum(dim=(1, 2))", ".mean(dim=(1, 2))")
edit("the sum over the bits of a vector is a mean", ".sum(dim=(1, 2))", ".mean(dim=2).sum(dim=1)")
edit("the targets are the wrong way round", "logits, -logits", "-logits, logits")
edit("the targets are not looked at", "torch.where(targets == 1, logits, -logits)", "logits")
edit("the sign is wrong", "return", "return -")
edit("through the sigmoid twice", "logits, -logits", "logits.sigmoid(), -logits.sigmoid()")
edit(
    "log(0) is -inf",
    "torch.nn.functional.softplus(-z)",
    "-torch.where(targets == 1, logits.sigmoid(), 1 - logits.sigmoid()).log()",
)
edit(
    "cut off at 100 nats",
    "torch.nn.functional.softplus(-z)",
    'torch.nn.functional.binary_cross_entropy(logits.sigmoid(), targets, reduction="none")',
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
edit("the share is the number of hits", ".mean().item()", ".sum().item()")
edit("over all steps of the read head", ".mean().item()", ".sum().item() / len(looked)")
edit("the later one", "share > most", "share >= most")
edit("counted from 1", "return best,", "return best + 1,")
edit("delay 0 is never tried", "in range(len", "in range(1, len")
edit("delay is", "range(len(looked) - n + 1)", "range(1)")
edit("your function returns", "return best, most", "return best")
edit("share and delay are swapped", "return best, most", "return most, best")
edit("the last delay that fits, T − n, is never tried", "len(looked) - n + 1", "len(looked) - n")
edit(
    "delays beyond T − n are tried",
    "len(looked) - n + 1",
    "len(looked)",
    "== written)",
    "== written[:len(looked) - delay])",
)
edit(
    "None came back as the delay where nothing hits",
    "return best, most",
    "return (best if most > 0 else None), most",
)


@wrong("04.follow", "the largest overlap of the weights")
def chosen_by_overlap(write, read):
    n = len(write)
    delay = int(
        torch.stack([(read[d : d + n] * write).sum() for d in range(len(read) - n + 1)]).argmax()
    )
    return delay, float((read[delay : delay + n].argmax(1) == write.argmax(1)).float().mean())


@wrong("04.follow", "the share is the overlap")
def share_of_overlap(write, read):
    n = len(write)
    overlaps = torch.stack(
        [(read[d : d + n] * write).sum(1).mean() for d in range(len(read) - n + 1)]
    )
    return int(overlaps.argmax()), float(overlaps.max())


edit = edits("04.best_predictor")
edit("1 is added to each count", "seen[1] + 0.5", "seen[1] + 1.0", "seen[1] + 1)", "seen[1] + 2)")
edit("0/0", "(seen[1] + 0.5)…", 'seen[1] / (seen[0] + seen[1]) if any(seen) else float("nan"))')
edit(
    "is counted, too",
    "told.append((seen",
    "seen[bit] += 1\n        told.append((seen",
    "+ 1))\n        seen[bit] += 1",
    "+ 1))",
)
edit("the context is n bits long", "t < n - 1", "t < n", "t - n + 1:t", "t - n:t")
edit("the context is not looked at", "t < n - 1", "False", "t - n + 1:t", "t:t")
edit("of a 0", "return torch.tensor(told)", "return 1 - torch.tensor(told)")
edit("are 0 before the first whole context", "append(0.5)", "append(0.0)")
edit("shifted", "torch.tensor(told)", "torch.tensor([*told[1:], 0.5])")
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
