"""Texts: vocabularies, batches, language modelling, questions, reviews, reports and trees."""
