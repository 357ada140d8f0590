"""Scores of visual question answering: `scoring` holds the definitions, `vqa` the `evaluate` module."""
