import torch

from ..collection import edits, wrong

edit = edits("09.pixels_and_latents")
edit("one reading alone", "n * n / (8 * (m * n + 6 * m * m))", "n / m")
edit("the number of times is not 224", "n * n / (8 * (m * n + 6 * m * m))", "224")
edit("expected one number", "n * n / (8 * (m * n + 6 * m * m))", '"a lot"')

edit = edits("09.shuffled_patches")
edit("expected one of 'about as many'", "about as many", "as many")
edit("a float came back", '"about as many"', "1.0")
edit("None came back", 'return "about as many"', "pass")

edit = edits("09.squares_back")
edit("the shape is", "N // across * P, across * P", "across * P, N // across * P")
edit("have become strips", "permute(0, 3, 1, 4, 2, 5)", "permute(0, 3, 1, 2, 4, 5)")
edit("no gradient goes back", "x = patches.", "x = patches.detach().")

edit = edits("09.one_opinion")
edit("all latents are alike", "torch.randn(M, d)", "torch.randn(1, d).expand(M, d)")
edit("large for a start", "0.02 * ", "")
edit("a line or in a plane", "torch.randn(M, d)", "torch.randn(M, 1).expand(M, d)")
edit("torch.manual_seed", "return", "torch.manual_seed(0)\n    return")
edit("the shape is", "torch.randn(M, d)", "torch.randn(d, M + 1)")


@wrong("09.one_opinion", "two latents are alike")
def half_of_them(M, d):
    rows = 0.02 * torch.randn(M - 1, d)
    return torch.cat([rows, rows[:1]])


@wrong("09.one_opinion", "all latents are alike")
def as_printed(M, d):
    return torch.zeros(M, d)


@wrong("09.one_opinion", "differ by about")
def nearly_nothing(M, d):
    return 1e-12 * torch.randn(M, d)


@wrong("09.one_opinion", "two calls give the same numbers")
def drawn_with_one_seed(M, d):
    return 0.02 * torch.randn(M, d, generator=torch.Generator().manual_seed(0))
