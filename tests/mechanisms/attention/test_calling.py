"""One way of calling: masks by name, and results that begin with the context."""

import inspect

import catalogue
import pytest
import torch

import attnbook

MASKS = {"mask", "key_mask", "source_mask"}
CLEAN = {"BatchNorm", "ShortConvolution", "Perceiver"}  # no attention to a source: no context
MODELS = {"TransformerEncoderModel", "TransformerLM"}
"""They give logits, and never had the old form."""
MASKED = [
    name
    for name in catalogue.MAKE
    if name not in MODELS
    and MASKS & inspect.signature(getattr(attnbook, name).forward).parameters.keys()
]


def given(name):
    """A call of a module with its masks by name, as a function, and these masks."""
    entry = catalogue.make(name)
    module = entry.module.double().eval()
    inputs = [x.double() if x.is_floating_point() else x for x in entry.inputs]
    return lambda *masks, **by_name: module(*inputs, *masks, **by_name), entry.options


def tensors(result):
    return [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def takers():
    for name in attnbook.__all__:
        thing = getattr(attnbook, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            for method, function in inspect.getmembers(thing, inspect.isfunction):
                if not method.startswith("_"):
                    yield f"{name}.{method}", function


def test_every_public_mechanism_takes_masks_by_name():
    seen = 0
    for name, function in takers():
        parameters = inspect.signature(function).parameters
        for mask in MASKS & parameters.keys():
            assert parameters[mask].kind is inspect.Parameter.KEYWORD_ONLY, (name, mask)
            seen += 1
    assert seen > 30


@pytest.mark.parametrize("name", MASKED)
def test_the_old_form_works_with_a_warning(name):
    call, options = given(name)
    (kind, mask), *_ = options.items()
    parameters = inspect.signature(getattr(attnbook, name).forward).parameters
    places = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values()) - 1  # no self
    before = [None] * (places - len(catalogue.make(name).inputs))
    wanted = tensors(call(**options))
    with pytest.warns(FutureWarning, match=f"give {kind} by name") as warned:
        assert all(map(torch.equal, tensors(call(*before, mask)), wanted))
    assert warned[0].filename == __file__  # where it was called, not in PyTorch
    if "mask" not in parameters:
        with pytest.warns(FutureWarning, match="give key_mask by name"):
            assert all(map(torch.equal, tensors(call(mask=mask)), wanted))
    with pytest.raises(TypeError), pytest.warns(FutureWarning):
        call(*before, mask, **options)


def test_the_old_form_of_functions_of_scores_works_with_a_warning():
    scores, value, mask = torch.randn(2, 3), torch.randn(3, 4), torch.rand(2, 3) < 0.6
    for name, inputs in (("masked_softmax", [scores]), ("partial_context", [scores, value])):
        function = getattr(attnbook, name)
        with pytest.warns(FutureWarning, match=f"{name}: give mask by name") as warned:
            found = function(*inputs, mask)
        assert all(map(torch.equal, tensors(found), tensors(function(*inputs, mask=mask))))
        assert warned[0].filename == __file__


@pytest.mark.parametrize("name", MASKED)
def test_which_keys_there_are_is_said_apart_and_additive_masks_are_refused(name):
    call, options = given(name)
    kinds = MASKS & inspect.signature(getattr(attnbook, name).forward).parameters.keys()
    masks = {kind: options[kind] if kind in options else options["mask"][:, 0] for kind in kinds}
    wanted = tensors(call(**options))
    for kind, mask in masks.items():
        for one, other in zip(tensors(call(**{kind: mask})), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
        with pytest.raises(ValueError, match=f"^{kind} must be a boolean .*{kind} == 0"):
            call(**{kind: mask.double()})


@pytest.mark.parametrize("name", sorted({*MASKED} - CLEAN))
def test_results_begin_with_the_context(name):
    call, options = given(name)
    assert type(call(**options))._fields[0] == "context"
