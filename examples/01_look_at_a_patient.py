"""Load the dataset as anyone would and look at one patient.

gastricx build --source phantom --patients 40 --out gastric-x
python examples/01_look_at_a_patient.py
"""

import numpy as np
from datasets import load_dataset

rows = load_dataset("gastric-x", "vqa", split="test")
row = rows[0]
print(f"{len(rows)} test questions; patient {row['case_id']}, {row['sex']}, {row['age']} years")

for phase in ("non_contrast", "arterial", "venous", "delayed"):
    image = row[f"ct_{phase}"]  # a nibabel image, read only now
    if image is None:
        print(f"  {phase:12} not acquired")
        continue
    hu = np.asarray(image.dataobj)
    spacing = " x ".join(f"{s:g}" for s in image.header.get_zooms())
    print(f"  {phase:12} {hu.shape} voxels of {spacing} mm, {hu.min()} to {hu.max()} HU")

for box in row["boxes"]:
    print(f"  {box['structure']:12} voxels {box['min']} to {box['max']} of the {box['phase']} phase")
outside = [lab for lab in row["labs"] if lab["value"] is not None and lab["upper"] and lab["value"] > lab["upper"]]
print("  raised:", ", ".join(f"{lab['name']} {lab['value']} {lab['unit']}" for lab in outside) or "nothing")
print(f"\nQ ({row['category']}): {row['question']}\nA: {row['answer']}   options: {row['options']}")
