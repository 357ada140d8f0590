"""Model families: one file per family, each registered with the Auto classes by a folder scan (auto.py)."""
