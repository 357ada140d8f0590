"""The `gastric-x` dataset: the builder, the folder that plain `load_dataset` reads, and its card."""
