"""From task rows to model inputs: the four schemas, abnormal-lab text, boxes, volume views and the collator (paper Section 4)."""
