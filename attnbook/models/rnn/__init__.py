"""Recurrent models: sequence to sequence, Bahdanau, Luong, the LSTM language model and the
LSTMN.
"""
