from ..collection import edits

edit = edits("02.aer_by_hand")
edit("1 minus the error rate", "2 / 9", "7 / 9")
edit("every sure link is possible", "2 / 9", "5 / 9")
edit("the rate is not 0.5", "2 / 9", "0.5")


edit = edits("02.forced_word")
edit("expected one of 'European'", '"zone"', '"economic"')
edit("a float came back", '"zone"', "1.0")
edit("None came back", 'return "zone"', "pass")


edit = edits("02.alignment_error_rate")
edit("ZeroDivisionError", "if not predicted and not sure", "if False")
edit("changes its argument possible in place", "possible = possible | sure", "possible |= sure")
edit(
    "do not round it",
    "return 1 - hits / (len(predicted) + len(sure))",
    "return round(1 - hits / (len(predicted) + len(sure)), 4)",
)
edit("where no link is possible is 0", "not predicted and", "not possible and")
