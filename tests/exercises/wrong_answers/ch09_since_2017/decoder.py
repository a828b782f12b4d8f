from ..collection import edits, wrong

edit = edits("09.letters_of_greek")
edit("expected one of 'a third'", '"two"', '"three"')
edit("an int came back", '"two"', "2")
edit("None came back", 'return "two"', "pass")

edit = edits("09.cut_by_merges")
edit("expected a list of strings", "return parts", 'return " ".join(parts)')
edit("None came back", "return parts", "parts")
edit("joined are not the word", "list(word)", "list(word[:-1])")
edit("right for small sizes, but with letters", "in merges", "in merges[:50]")

edit = edits("09.one_card")
edit("Adam's three tables are missing", "+ 4 + 4 + 4", "")
edit("the forward pass alone", ", 6 * 2**30", ", 2 * 2**30")
edit("the number of hours is not 1000", "6 * 2**30 * 20e9 / 2e14 / 3600", "1000")
edit("expected the tuple", ", 6 * 2**30 * 20e9 / 2e14 / 3600", "")

edit = edits("09.right_with_one_head")
edit("no gradient reaches", "x @ W", "x @ W.detach()")
edit("shape", ".permute(1, 2, 0, 3)", ".permute(1, 0, 2, 3)")
edit("returns a NoneType", "return Q, K, V", "")


@wrong("09.right_with_one_head", "the columns of a head are taken to stand together")
def as_printed(x, W, b, h):
    Q, K, V = (x @ W + b).view(len(x), h, 3, -1).permute(2, 1, 0, 3).unbind(0)
    return Q, K, V
