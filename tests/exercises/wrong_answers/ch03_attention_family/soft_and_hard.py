from ..collection import edits

edit = edits("03.one_draw")
edit("without the baseline", "0.125", "-0.25")
edit(" is not ", "0.125", "1.0")
edit("one number", "0.125", '"up"')

edit = edits("03.strong_pull")
edit("expected one of", "nearly all", "all")
edit("expected one of", "nearly all", "most")
edit("one of 'nearly all'", '"nearly all"', "1.0")

edit = edits("03.sparsemax")
edit("the weights: the shape is", "(scores - tau)", "(scores - tau)[..., :1]")
edit("no gradient goes back", "(scores - tau)", "(scores - tau).detach()")
edit("the gradient at scores is not", "(scores - tau)", "(scores - tau.detach())")


edit = edits("03.reinforce")
edit("no gradient reaches the scores", "log_softmax(scores", "log_softmax(scores.detach()")
edit("no gradient can be taken of your loss", ".mean()", ".mean().detach()")
edit("a gradient reaches the baseline", "(log_p - baseline).detach()", "log_p.detach() - baseline")
edit("one number: the mean over the captions", "- entropy_weight * entropy).mean()", ")")
