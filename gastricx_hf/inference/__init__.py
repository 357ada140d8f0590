"""Predictions, one JSON line per example."""
