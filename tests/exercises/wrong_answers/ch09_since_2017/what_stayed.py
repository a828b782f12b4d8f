from ..collection import edits, wrong

edit = edits("09.cache_outgrows")
edit("both keep the same: which is the first", "// per_pair + 1", "// per_pair")
edit("the number of pairs is not 100", "return state // per_pair + 1", "return 100")
edit("expected one number", "return state // per_pair + 1", 'return "17"')

edit = edits("09.told_twice")
edit("expected one of", '"none"', '"all of them"')
edit("a float came back", '"none"', "0.5")
edit("None came back", 'return "none"', "pass")

edit = edits("09.all_it_took")
edit("only the parents", "new = set().union(*(took[key] for key in new)) - found", "new = set()")
edit("the name itself", "return found", "return found | {name}")
edit("a set of names was expected, got list", "return found", "return sorted(found)")


@wrong("09.all_it_took", "go the other way")
def heirs(took, name):
    found, new = set(), {name}
    while new:
        new = {key for key, above in took.items() if new & set(above)} - found
        found |= new
    return found


@wrong("09.all_it_took", "these are missing")
def two_generations(took, name):
    parents = set(took[name])
    return parents.union(*(took[key] for key in parents))
