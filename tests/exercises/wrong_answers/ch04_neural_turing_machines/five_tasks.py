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
edit("the mean is not taken away", "(repeats - numbers.mean())", "repeats")
edit("not divided by the deviation", "/ numbers.std(correction=0)", "")
edit("divided by the variance", "numbers.std", "numbers.var")
edit("the deviation is that of a sample", "correction=0", "")
edit(
    "of a continuous range",
    "numbers.mean()",
    "(least + most) / 2",
    "numbers.std(correction=0)",
    "((most - least) / 12**0.5)",
)
edit("are those of the batch", "torch.arange(least, most + 1).float()", "repeats.float()")
edit("of a sample", "torch.arange(least, most + 1).float()", "repeats.float()", "correction=0", "")
edit("scaled to 0 … 1", "numbers.mean()", "least", "numbers.std(correction=0)", "(most - least)")
edit("most is included", "most + 1", "most")
edit("are cut off", "(repeats -", "(repeats.clamp(least, most) -")
edit("the dtype is float64", ".float()", ".double()")
edit("to −1 … 1", "(repeats - numbers.mean())…", "2 * (repeats - least) / (most - least) - 1")
edit("nothing is done", "(repeats - numbers.mean()) / numbers.std(correction=0)", "repeats.float()")
edit("without brackets", "(repeats - numbers.mean())", "repeats - numbers.mean()")
edit("the mean is rounded down", "numbers.mean()", "(least + most) // 2")
edit("it starts at `least`", "arange(least", "arange(1")
edit("numbers[", "least, most + 1", "1, 21")
edit("changes its argument repeats in place", "(repeats -", "(repeats.mul_(2) / 2 -")


edit = edits("04.item_after")
edit("the query itself came back", "argmax(1) + 1", "argmax(1)")
edit("the item before it", "argmax(1) + 1", "argmax(1) - 1")
edit(
    "an item of many ones wins",
    "same.int()",
    "(items * query[:, None]).sum((2, 3))",
    "+ 1]",
    "+ 1 - items.shape[1]]",
)
edit(
    "the first vector alone is compared",
    "(items == query.unsqueeze(1)).flatten(2).all(-1)",
    "(items[:, :, 0] == query[:, None, 0]).all(-1)",
    "+ 1]",
    "+ 1 - items.shape[1]]",
)
edit("one bit that agrees is enough", ".all(-1)", ".any(-1)")
edit("always the last item", "torch.arange(len(items)), same.int().argmax(1) + 1", ":, -1")
edit("always the second item", "torch.arange(len(items)), same.int().argmax(1) + 1", ":, 1")
edit("each has a query of its own", "torch…", ":, same[0].int().argmax() + 1]")
edit("places came back", "return…", "return same.int().argmax(1) + 1")
edit(
    "one vector that agrees is enough",
    ".flatten(2).all(-1)",
    ".all(-1).any(-1)",
    "+ 1]",
    "+ 1 - items.shape[1]]",
)
edit(
    "the last vector alone",
    "(items == query.unsqueeze(1)).flatten(2)",
    "(items[:, :, -1] == query[:, None, -1])",
    "+ 1]",
    "+ 1 - items.shape[1]]",
)
edit(
    "the number of ones is compared",
    "(items == query.unsqueeze(1)).flatten(2).all(-1)",
    "items.sum((2, 3)) == query.sum((1, 2))[:, None]",
    "+ 1]",
    "+ 1 - items.shape[1]]",
)
edit(
    "the ones of each vector are counted",
    "(items == query.unsqueeze(1)).flatten(2)",
    "(items.sum(3) == query.sum(2)[:, None])",
    "+ 1]",
    "+ 1 - items.shape[1]]",
)
edit(
    "the vectors of an item are added up",
    "(items == query.unsqueeze(1)).flatten(2)",
    "(items.sum(2) == query.sum(1)[:, None])",
    "+ 1]",
    "+ 1 - items.shape[1]]",
)
edit("the zeros are compared alone", "items ==", "items <=", "+ 1]", "+ 1 - items.shape[1]]")
edit("the shape is", "torch.arange(len(items))", ":")


@wrong("04.item_after", "the cosine with the query")
def by_cosine(items, query):
    cosine = torch.nn.functional.cosine_similarity(
        items.flatten(2), query.flatten(1).unsqueeze(1), dim=-1
    )
    return items[torch.arange(len(items)), (cosine.argmax(1) + 1).clamp(max=items.shape[1] - 1)]


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
