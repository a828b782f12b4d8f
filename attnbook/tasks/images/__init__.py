"""Pictures: drawn scenes with captions, digits, few-shot episodes, and sets for generators."""
