"""Cases to task rows: one file per task with its columns, target, metrics and what a model must never be shown."""
