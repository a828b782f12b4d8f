"""What every sequence task is made of: pairs, vocabularies, batches, and the registry of tasks."""
