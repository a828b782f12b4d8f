import torch

from ..collection import edits, wrong

edit = edits("06.clock_product")
edit("2 steps and not 3", "-0.5", "0")
edit("the positions are added", "-0.5", "-2")
edit("the product is not 3", "-0.5", "3")
edit("expected one number", "-0.5", '"a half"')

edit = edits("06.moved_text")
edit("expected one of 'as many'", '"clearly fewer"', '"none"')
edit("a float came back", '"clearly fewer"', "0.2")
edit("None came back", 'return "clearly fewer"', "pass")

edit = edits("06.sinusoid_rows")
edit("in the first half of the columns", "stack…", "cat([angle.sin(), angle.cos()], dim=1)")
edit("have changed places", "angle.sin(), angle.cos()", "angle.cos(), angle.sin()")
edit("counted from k = 1", "torch.arange(d // 2)", "torch.arange(1, d // 2 + 1)")
edit("the exponent is k/d", "-2 * torch", "-1 * torch")
edit("the columns are counted twice", "-2 * torch", "-4 * torch")
edit("divided by ω", "* omega", "/ omega")
edit("all columns are sines", "angle.cos()", "angle.sin()")
edit("they need not be whole", "places[:, None]", "places.trunc()[:, None]")
edit("those of places 0, 1, 2", "places[:, None]", "torch.arange(len(places))[:, None]")
edit("one row a place", ".flatten(1)", ".flatten(1).T")


@wrong("06.sinusoid_rows", "a pair shares its frequency")
def each_column_its_own(places, d):
    c = torch.arange(d)
    angle = places[:, None] * 10_000.0 ** (-c / d)
    return torch.where(c % 2 == 0, angle.sin(), angle.cos())


edit = edits("06.relative_scores")
edit("your code stopped with", ".clamp(-K, K)", "")
edit("a tensor of n·n·d numbers is made", "(q @ table…", "(q[:, :, None] * table[index]).sum(-1)")
edit("no gradient reaches table", "table.T", "table.T.detach()")
edit("the gradient at q is not", "(q @ table.T)", "(q.detach() @ table.T)")


edit = edits("06.tree_distance")
edit("differences of depths", "size[:, None]…", "(size[:, None] - size).abs()")
edit("sums of depths", "size[:, None] + size - 2 * above @ above.T", "size[:, None] + size - 2")
edit("for all words that differ", "size[:, None]…", "(size[:, None] + size - 2).fill_diagonal_(0)")
edit("distances in the sentence", "size[…", "(torch.arange(n)[:, None] - torch.arange(n)).abs()")
edit("taken off once", "- 2 * above @ above.T", "- above @ above.T - 1")
edit("each distance is one too large", "above.T", "above.T + 1")
edit(
    "each distance but 0 is one too large",
    "return size[:, None] + size - 2 * above @ above.T",
    "return (size[:, None] + size - 2 * above @ above.T + 1).fill_diagonal_(0)",
)
edit("only ways straight up are counted", "return…", "return above * (size[:, None] - size)")
edit(
    "straight up and down",
    "return size[:, None] + size - 2 * above @ above.T",
    "return (above + above.T).clamp(max=1) * (size[:, None] - size).abs()",
)
edit("does not count as above itself", "size = above", "above.fill_diagonal_(0)\n    size = above")
edit(
    "only neighbours are joined",
    "return size[:, None] + size - 2 * above @ above.T",
    "return (size[:, None] + size - 2 * above @ above.T == 1).long()",
)
edit("the dtype is float32", "size[…", "(size[:, None] + size - 2 * above @ above.T).float()")


@wrong("06.tree_distance", "is taken for the last word")
def root_under_the_last_word(heads):
    n = len(heads)
    distance = torch.full((n, n), n)
    for word, head in enumerate(heads.tolist()):
        distance[word, head] = distance[head, word] = 1
    distance.fill_diagonal_(0)
    for k in range(n):
        distance = torch.minimum(distance, distance[:, k, None] + distance[k])
    return distance
