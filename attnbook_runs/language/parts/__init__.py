"""Parts of models that only one recorded comparison has."""
