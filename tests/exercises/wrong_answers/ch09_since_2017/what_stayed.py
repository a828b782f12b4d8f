from ..collection import edits

edit = edits("09.told_twice")
edit("expected one of", '"none"', '"all of them"')
edit("a float came back", '"none"', "0.5")
edit("None came back", 'return "none"', "pass")

edit = edits("09.all_it_took")
edit("a set of names was expected, got list", "return found", "return sorted(found)")
edit("these are missing", "    while new:", "    for _ in range(2):")
edit("right for small sizes, but with generations", "    while new:", "    for _ in range(40):")
