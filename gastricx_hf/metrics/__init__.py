"""Definitions of the scores: one folder per `evaluate` module, pure functions inside, offline."""
