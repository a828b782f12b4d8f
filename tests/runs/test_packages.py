"""A package that is missing is named before the training, not after it."""

import sys

import pytest

from attnbook_runs import load_experiments
from attnbook_runs.images import captions
from attnbook_runs.translation import real_sentences


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("multi30k-en-de-bahdanau-small", "sacrebleu", "translate"),
        ("multi30k-en-de-transformer-small", "sacrebleu", "translate"),
        ("multi30k-luong-global-dot-small", "sacrebleu", "translate"),
        ("tatoeba-en-fr", "sacrebleu", "translate"),
        ("captions-soft", "pycocoevalcap", "captions"),
        ("captions-nlvr-soft", "pycocoevalcap", "captions"),
    ],
)
def test_a_missing_package_is_named_before_any_data_is_read(name, package, extra, monkeypatch):
    for module in ("sacrebleu.metrics.bleu", "pycocoevalcap.cider.cider"):
        if module.startswith(package):
            monkeypatch.setitem(sys.modules, module, None)
    for reader in (real_sentences.corpora, captions.scenes, captions.nlvr):
        for function in ("multi30k", "tatoeba", "scenes", "read"):
            monkeypatch.setattr(reader, function, None, raising=False)
    experiment = load_experiments()[name]
    with pytest.raises(ImportError, match=rf'needs {package}: pip install "attnbook\[{extra}\]"'):
        experiment.run(experiment.settings)
