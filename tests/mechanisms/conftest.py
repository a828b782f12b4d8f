import pytest
import torch

import attnbook

D = 6  # one width for queries and keys, so that every score fits


def build(name):
    torch.manual_seed(7)
    return attnbook.make_score(name, D, D, d_hidden=5, rank=2, max_length=12).double()


@pytest.fixture(params=sorted(attnbook.SCORES))
def score(request):
    return build(request.param)


@pytest.fixture
def problem():
    """Two rows of four queries and seven keys; one query may attend to nothing."""
    g = torch.Generator().manual_seed(3)
    query, key, value = (
        torch.randn(2, n, d, generator=g, dtype=torch.float64) for n, d in ((4, D), (7, D), (7, 3))
    )
    mask = torch.rand(2, 4, 7, generator=g) < 0.6
    mask[1, 2] = False
    return query, key, value, mask
