import torch

from ..collection import edits, wrong

edit = edits("09.parameters_of_a_block")
edit("the attention alone", "58", "10")
edit("is not 60", "58", "60")
edit("expected one number", "58", '"58 Mi"')

edit = edits("09.letters_of_greek")
edit("expected one of 'a third'", '"two"', '"three"')
edit("an int came back", '"two"', "2")
edit("None came back", 'return "two"', "pass")

edit = edits("09.cut_by_merges")
edit("joins every occurrence", "k += 1", "k = len(parts) if joined else k + 1")
edit("from the last one to the first", "in merges:", "in merges[::-1]:")
edit("nothing is joined", "parts[k : k + 2] == [x, y]", "False")
edit("expected a list of strings", "return parts", 'return " ".join(parts)')
edit("None came back", "return parts", "parts")


@wrong("09.cut_by_merges", "the longest piece that fits")
def longest_first(word, merges):
    known, parts = {x + y for x, y in merges}, []
    while word:
        size = max([1, *(k for k in range(2, len(word) + 1) if word[:k] in known)])
        parts.append(word[:size])
        word = word[size:]
    return parts


@wrong("09.cut_by_merges", "only one merge is done")
def only_the_first(word, merges):
    parts = list(word)
    for x, y in merges:
        joined, k = [], 0
        while k < len(parts):
            both = parts[k : k + 2] == [x, y]
            joined.append(x + y if both else parts[k])
            k += 2 if both else 1
        if len(joined) < len(parts):
            return joined
    return parts


@wrong("09.cut_by_merges", "joined are not the word")
def a_letter_lost(word, merges):
    return list(word[:-1])


edit = edits("09.right_with_one_head")
edit("the columns of a head are taken to stand together", "3, h,…", "h, 3, -1).permute(2, 1, 0, 3)")
edit("neighbouring columns are taken", "(len(x…", "(len(x), h, -1, 3).permute(3, 1, 0, 2)")
edit("not every h-th column", "3, h, -1).permute(1, 2, 0, 3)", "3, -1, h).permute(1, 3, 0, 2)")
edit("the biases are not added", " + b)", ")")
edit("no gradient reaches", "x @ W", "x @ W.detach()")
edit("shape", ".permute(1, 2, 0, 3)", ".permute(1, 0, 2, 3)")


@wrong("09.right_with_one_head", "do not reshape")
def reshaped(x, W, b, h):
    return tuple(part.reshape(h, len(x), -1) for part in (x @ W + b).chunk(3, dim=-1))


@wrong("09.right_with_one_head", "returns a NoneType")
def nothing(x, W, b, h):
    torch.split(x @ W + b, 3)


@wrong("09.right_with_one_head", "the columns of a head are taken to stand together")
def as_printed(x, W, b, h):
    Q, K, V = (x @ W + b).view(len(x), h, 3, -1).permute(2, 1, 0, 3).unbind(0)
    return Q, K, V


edit = edits("09.cut_by_merges")
edit("the last pair of pieces is never looked at", "k + 1 < len", "k + 2 < len")
edit("its two pieces alone", "parts[k : k + 2] == [x, y]", "''.join(parts[k : k + 2]) == x + y")
