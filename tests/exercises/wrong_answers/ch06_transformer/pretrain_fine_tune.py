import torch

from ..collection import edits, wrong

edit = edits("06.adapter_bill")
edit("half of the numbers are missing", "2 * 2 * 8", "2 * 8")
edit("a gradient and Adam's two averages", "trained * 4 * 4", "trained * 4")
edit("these are bytes", " / 1e6", "")

edit = edits("06.silent_texts")
edit("your prediction", '"about half"', '"half"')
edit("your prediction", '"about half"', "0.5")
edit("your prediction", '"about half"', "None")

edit = edits("06.four_rates")
edit("the letter of whole is not 'B'", '"A", "B", "D"', '"B", "A", "D"')
edit("the letter of LoRA is not 'D'", '"A", "B", "D"', '"A", "D", "B"')
edit("the letter of frozen is not 'C'", '"A", "B", "D"', '"A", "B", "C"')

edit = edits("06.restart_positions")
edit("positions go on from one document", "index - start", "index")
edit("a document begins at 1", "index - start", "index - start + (start > 0)")
edit("expected int64", "index - start", "(index - start).float()")


@wrong("06.restart_positions", "changes its argument documents in place")
def count_in_place(documents):
    documents[:, 1:] = documents[:, 1:] != documents[:, :-1]
    documents[:, 0] = 1
    index = torch.arange(documents.shape[1]).expand_as(documents)
    return index - torch.where(documents > 0, index, 0).cummax(1).values


edit = edits("06.adapter_bug")
edit("the rank is the number of rows of A", "down.shape[1]", "up.shape[1]")
edit("no gradient reaches A", "down[which]", "down[which].detach()")
edit("no gradient reaches B", "up[which]", "up[which].detach()")


@wrong("06.adapter_bug", "changes its argument weight in place")
def merged_as_printed(x, weight, down, up, which, alpha):
    result = torch.zeros(len(x), len(weight), dtype=x.dtype)
    for k in range(len(down)):
        chosen = which == k
        if chosen.any():
            weight += alpha / len(up[k]) * up[k] @ down[k]
            result[chosen] = x[chosen] @ weight.T
    return result


@wrong("06.adapter_bug", "stays in W when the next one is read")
def copied_once(x, weight, down, up, which, alpha):
    weight, result = weight.clone(), torch.zeros(len(x), len(weight), dtype=x.dtype)
    for k in range(len(down)):
        chosen = which == k
        if chosen.any():
            weight = weight + alpha / down.shape[1] * up[k] @ down[k]
            result[chosen] = x[chosen] @ weight.T
    return result
