import torch

from ..collection import edits, wrong

edit = edits("04.three_votes")
edit("not squared yet", "0.57", "0.4")
edit(" is not ", "0.57", "0.9")
edit("one number", "0.57", '"0.57"')

edit = edits("04.backwards_question")
edit("expected one of", '"few"', '"none"')
edit("expected one of", '"few"', '"a few"')
edit("one of 'nearly all'", '"few"', "0.1")

edit = edits("04.repeat_number")
edit("the dtype is float64", ".float()", ".double()")
edit("numbers[", "least, most + 1", "1, 21")
edit("changes its argument repeats in place", "(repeats -", "(repeats.mul_(2) / 2 -")


edit = edits("04.item_after")
edit("places came back", "return…", "return same.int().argmax(1) + 1")
edit("the shape is", "torch.arange(len(items))", ":")


@wrong("04.item_after", "answers[")
def one_vector_on(items, query):
    """The vectors after the first of the query, not the item after it."""
    place = (items == query[:, None]).flatten(2).all(-1).int().argmax(1) * items.shape[2] + 1
    return items.flatten(1, 2)[
        torch.arange(len(items))[:, None], place[:, None] + torch.arange(items.shape[2])
    ]


@wrong("04.several_heads", "a head starts from where the head before it looks at this step")
def heads_as_printed(memory, previous, key, strength, gate, kernel):
    found = [previous[:, 0]]
    for h in range(key.shape[1]):
        alike = torch.cosine_similarity(key[:, h, None], memory, dim=-1)
        by_content, g = torch.softmax(strength[:, h, None] * alike, -1), gate[:, h, None]
        mixed = g * by_content + (1 - g) * found[-1]
        found.append(sum(kernel[:, h, k, None] * mixed.roll(k - 1, -1) for k in range(3)))
    return torch.stack(found[1:], 1)


edit = edits("04.several_heads")
edit("no gradient reaches previous", "* previous[:, h]", "* previous[:, h].detach()")
edit(
    "the slots lie on a ring",
    "mixed.roll(k - 1, dims=-1)",
    "F.pad(mixed, (1, 1))[:, 2 - k:][:, :mixed.shape[1]]",
)
