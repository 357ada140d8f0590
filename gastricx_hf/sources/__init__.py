"""Anything to cases: the released tree, phantom patients."""
