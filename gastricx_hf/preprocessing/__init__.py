"""From stored volumes to standardised cases: one orientation, one grid, clipped HU, z-score statistics (paper Appendix B)."""
