"""Training, decoding and scoring, for any model with the methods `encode`, `start`, `step` and `forward`."""

from .averaging import average_checkpoints
from .checkpoints import load_model_weights, read_metadata, save_model
from .cross_entropy import smoothed_cross_entropy
from .decoding import Decoding, Hypothesis, beam_search, greedy, score_targets
from .fit import fit
from .history import History, NonFiniteError
from .losses import token_loss
from .metrics import Bleu, bleu, cider, edit_distance, exact_match, token_accuracy, token_error_rate
from .pointing import Candidate, Pointed, point_beam, point_greedy, pointing_loss
from .recurrence import clipped_backward
from .schedules import constant, cosine_decay, inverse_sqrt, linear_decay

__all__ = [
    "Bleu",
    "Candidate",
    "Decoding",
    "History",
    "Hypothesis",
    "NonFiniteError",
    "Pointed",
    "average_checkpoints",
    "beam_search",
    "bleu",
    "cider",
    "clipped_backward",
    "constant",
    "cosine_decay",
    "edit_distance",
    "exact_match",
    "fit",
    "greedy",
    "inverse_sqrt",
    "linear_decay",
    "load_model_weights",
    "read_metadata",
    "save_model",
    "point_beam",
    "point_greedy",
    "pointing_loss",
    "score_targets",
    "smoothed_cross_entropy",
    "token_accuracy",
    "token_error_rate",
    "token_loss",
]
