from ..collection import edits, wrong

edit = edits("01.lag_by_hand")
edit("when the source is read forward", "return 4", "return 7 + 3 - 2")
edit("one too many", "return 4", "return 3 + 2")
edit("the lag is not 1", "return 4", "return 1")


edit = edits("01.every_step")
edit("expected one of 'more'", '"less"', '"fewer"')
edit("an int came back", '"less"', "7")
edit("None came back", 'return "less"', "pass")


edit = edits("01.reverse_padded")
edit("as if it had 2 words", "lengths.unsqueeze(-1)", "2")


@wrong("01.reverse_padded", "the batch is reversed")
def flips_batch(source, lengths):
    return source.flip(0)


@wrong("01.reverse_padded", "changes its argument source in place")
def in_place(source, lengths):
    for row, length in zip(source, lengths.tolist()):
        row[:length] = row[:length].flip(0)
    return source
