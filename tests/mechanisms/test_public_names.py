"""What other people's code may import, and from where."""

import importlib

import pytest

MECHANISMS = """
    AdditiveScore Addressed Attended AttentionBlock BatchNorm CausalConvolution
    ConditionalBatchNorm ContentScore DenseBlock DotScore Dropout FeedForward GatedFeedForward
    GeneralScore LayerNorm LearnedPositions LengthProjection LinformerAttention LocalAttention
    LocationScore MemoryCompressedAttention MixtureOfExperts MultiHeadAttention NoPositions
    NoResidual PictureAttention PooledPictureAttention PostNorm PreNorm PredictedPosition
    ProjectedSource RMSNorm ReZero ReducedRankScore RelativeMultiHeadAttention SCORES
    ScaledDotScore Score SinusoidalPositions StructuralPositions Switch
    SyntacticMultiHeadAttention TCBlock WindowedSource add_spectral_norm address attend
    attend_window balance_loss causal_mask largest_singular_values make_score masked_softmax
    monotonic_position padding_mask shift_matrix sinusoids tree_depth
    tree_distance tree_offset window_index ResidualConnection
"""
MODELS = """
    Bahdanau Captioner DCGAN_BLOCKS FeedForwardAttention FewShotSNAIL FixedDictionary
    HierarchicalAttention LSTMLanguageModel LSTMN Luong MemoryNetwork NTM Parts
    PictureDiscriminator PictureEmbedding PictureGenerator PicturePair PointerNetwork Prototypes
    RESIDUAL_BLOCKS ResidualInstead SNAIL Seq2Seq SyntacticEncoderModel Transformer
    TransformerEncoderModel TransformerLM alternating attention_scales dcgan_pair paper_parts
    sagan_pair
"""
TASKS = """
    BOS Batch CharacterWindows EOS PAD Pair SequenceBatches TOKEN_IDS Task UNK Vocabulary Window
    character_vocabulary collate encode_text make_task split_text to_text
"""
TRAINING = """
    History NonFiniteError average_checkpoints fit fit_adversarial language_loss load_model_weights
    perplexity pointing_loss save_model token_loss
"""
DECODING = """
    Decoded Decoding Hypothesis Step TokenIds beam_search generate greedy point_beam point_greedy
    sample score_targets speculative_sample token_distribution
"""
PRETRAINED = "Tokenizer load_decoder load_tokenizer save_decoder"


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("attnbook.mechanisms", MECHANISMS),
        ("attnbook.models", MODELS),
        ("attnbook.tasks", TASKS),
        ("attnbook.training", TRAINING),
        ("attnbook.decoding", DECODING),
        ("attnbook.pretrained", PRETRAINED),
        ("attnbook", MECHANISMS + MODELS + DECODING + PRETRAINED + " __version__ setup"),
    ],
)
def test_public_names_stay_where_they_are(package, names):
    module = importlib.import_module(package)
    assert set(names.split()) <= set(module.__all__)
    assert all(hasattr(module, name) for name in names.split())
