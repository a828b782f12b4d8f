"""Training and scoring of any model that has `encode`, `start`, `step` and `forward`."""

from .adversarial import AdversarialHistory, fit_adversarial, sample_pictures, standing_statistics
from .evaluation.metrics import (
    Bleu,
    bleu,
    cider,
    edit_distance,
    exact_match,
    token_accuracy,
    token_error_rate,
)
from .loop.averaging import average_checkpoints
from .loop.checkpoints import load_model_weights, read_metadata, save_model
from .loop.fit import fit
from .loop.history import History, NonFiniteError
from .losses.cross_entropy import smoothed_cross_entropy
from .losses.language_model import language_loss, perplexity
from .losses.pointing import pointing_loss
from .losses.token_loss import token_loss
from .optim.recurrent_gradients import clipped_backward
from .optim.schedules import constant, cosine_decay, inverse_sqrt, linear_decay

__all__ = [
    "AdversarialHistory",
    "Bleu",
    "History",
    "NonFiniteError",
    "average_checkpoints",
    "bleu",
    "cider",
    "clipped_backward",
    "constant",
    "cosine_decay",
    "edit_distance",
    "exact_match",
    "fit",
    "fit_adversarial",
    "inverse_sqrt",
    "language_loss",
    "linear_decay",
    "load_model_weights",
    "perplexity",
    "pointing_loss",
    "read_metadata",
    "sample_pictures",
    "save_model",
    "smoothed_cross_entropy",
    "standing_statistics",
    "token_accuracy",
    "token_error_rate",
    "token_loss",
]
