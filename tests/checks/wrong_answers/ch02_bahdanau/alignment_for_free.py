from ..collection import edits

edit = edits("02.hard_alignment")
edit("for each target word", "dim=-1", "dim=0")
edit("padding is pointed at", ", :source_length", "")
edit(
    "the lengths have changed places",
    ":target_length, :source_length",
    ":source_length, :target_length",
)
edit("counted from 1", ".tolist()", ".add(1).tolist()")
edit("padded target words are aligned too", ":target_length", ":")
edit("is a float, expected a whole number", ".tolist()", ".double().tolist()")


edit = edits("02.alignment_error_rate")
edit("1 minus the error rate", "1 - hits", "hits")
edit("every sure link is possible too", "possible | sure", "possible")
edit("expected |A| + |S|", "+ len(sure))", "+ len(possible))")
edit("the F-score on the sure ones", "& possible", "& sure")
edit("ZeroDivisionError", "if not predicted and not sure", "if False")
edit("changes its argument possible in place", "possible = possible | sure", "possible |= sure")
