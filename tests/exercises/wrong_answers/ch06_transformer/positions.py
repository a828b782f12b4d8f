import math

from ..collection import edits, wrong

edit = edits("06.moved_text")
edit("expected one of 'as many'", '"clearly fewer"', '"none"')
edit("a float came back", '"clearly fewer"', "0.2")
edit("None came back", 'return "clearly fewer"', "pass")

edit = edits("06.sinusoid_rows")
edit("divided by ω", "* omega", "/ omega")
edit("one row a place", ".flatten(1)", ".flatten(1).T")


edit = edits("06.far_enough")
edit("the distances from −5 on share one vector", "6", "5")
edit("the distances from −2 on share one vector", "6", "2")
edit("the table has 17 vectors", "6", "8")
edit("expected a whole number from 0 to 100", "6", "-6")


edit = edits("06.relative_scores")
edit("your code stopped with", ".clamp(-K, K)", "")
edit("a tensor of n·n·d numbers is made", "(q @ table…", "(q[:, :, None] * table[index]).sum(-1)")
edit("no gradient reaches table", "table.T", "table.T.detach()")
edit("the gradient at q is not", "(q @ table.T)", "(q.detach() @ table.T)")


edit = edits("06.tree_distance")
edit("only ways straight up are counted", "return…", "return above * (size[:, None] - size)")
edit("does not count as above itself", "size = above", "above.fill_diagonal_(0)\n    size = above")
edit("the dtype is float32", "size[…", "(size[:, None] + size - 2 * above @ above.T).float()")


@wrong("06.sinusoid_rows", "for 600 places: no loop")
def sinusoids_by_loops(places, d):
    rows = places.new_empty(len(places), d)
    for t, place in enumerate(places.tolist()):
        for i in range(d // 2):
            angle = place / 10_000 ** (2 * i / d)
            rows[t, 2 * i], rows[t, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return rows
