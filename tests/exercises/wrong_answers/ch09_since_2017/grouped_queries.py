import torch

from ..collection import edits, wrong

edit = edits("09.bill_of_a_cache")
edit("the keys alone", "448", "224")
edit("is not 450", "448", "450")
edit("expected one number", "448", '"448 MiB"')

edit = edits("09.work_of_a_prompt")
edit("expected one of 'a quarter'", "as many", "an eighth")
edit("a float came back", '"as many"', "0.25")
edit("None came back", 'return "as many"', "pass")

edit = edits("09.means_of_heads")
edit("are added", ".mean(2)", ".sum(2)")
edit("the first head of each group", ".mean(2)", "[:, :, 0]")
edit("the last head of each group", ".mean(2)", "[:, :, -1]")
edit("side by side", "(kept, had // kept, -1)).mean(2)", "(had // kept, kept, -1)).mean(1)")
edit("within a head", "(kept, had // kept, -1)).mean(2)", "(-1, had // kept)).mean(2)")
edit("None came back", "return W", "W")
edit("shape", ".flatten(1)", "")

edit = edits("09.right_at_both_ends")
edit(
    "in turns",
    "K.repeat_interleave(shared, 0)",
    "K.repeat(shared, 1, 1)",
    "V.repeat_interleave(shared, 0)",
    "V.repeat(shared, 1, 1)",
)
edit("but the values are not", "V.repeat_interleave(shared, 0)", "V.repeat(shared, 1, 1)")
edit("but the keys are not", "K.repeat_interleave(shared, 0)", "K.repeat(shared, 1, 1)")
edit("not divided by the root", " / Q.shape[-1] ** 0.5", "")
edit("of the values' width", "Q.shape[-1] ** 0.5", "V.shape[-1] ** 0.5")
edit(
    "all heads read the first",
    "K.repeat_interleave(shared, 0)",
    "K[:1].expand(len(Q), -1, -1)",
    "V.repeat_interleave(shared, 0)",
    "V[:1].expand(len(Q), -1, -1)",
)
edit("no gradient reaches K", "K.repeat_interleave", "K.detach().repeat_interleave")


@wrong("09.right_at_both_ends", "in turns")
def as_printed(Q, K, V):
    shared = len(Q) // len(K)
    K, V = K.repeat(shared, 1, 1), V.repeat(shared, 1, 1)
    return (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1) @ V


@wrong("09.means_of_heads", "side by side")
def every_other_head(W, had, kept):
    return torch.stack(W.chunk(had, 1)).unflatten(0, (-1, kept)).mean(0).transpose(0, 1).flatten(1)
