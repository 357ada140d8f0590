"""Synthetic patients with planted truth, written as the release's own tree; every artefact says PHANTOM."""

from gastricx_hf.sources.phantom.oracle import oracle, oracle_posteriors
from gastricx_hf.sources.phantom.truth import Truth, draw_truth
from gastricx_hf.sources.phantom.write import SIZES, write_phantom

__all__ = ["SIZES", "Truth", "draw_truth", "oracle", "oracle_posteriors", "write_phantom"]
