"""What a case is, and whether it is fit: record items, staging, splits, audit."""
