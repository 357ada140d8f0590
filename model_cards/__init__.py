"""Model card templates: `base.md`, and one per family that extends it."""
