"""Fine-tune X2-VLM-Med with LoRA through a plain Trainer.

gastricx build --source phantom --patients 40 --out gastric-x
python examples/02_finetune_with_lora.py
"""

from dataclasses import asdict

from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, AutoProcessor, Trainer, TrainingArguments, set_seed

import gastricx_hf  # noqa: F401 (registers the Auto classes)
from gastricx_hf.inputs.collate import VQACollator, undecoded
from gastricx_hf.inputs.schemas import build_prompt
from gastricx_hf.models.loading import new_model
from gastricx_hf.preprocessing.settings import PRESETS
from gastricx_hf.preprocessing.store import store_beside

set_seed(0)
rows = undecoded(load_dataset("gastric-x", "vqa", split="train"))

# a new tiny model; with a checkpoint it would be AutoModel.from_pretrained("you/your-checkpoint")
texts = [*rows["answer"], *(build_prompt(row, "image+table").text for row in rows)]
adapter = new_model("x2vlm-med", "tiny", asdict(PRESETS["tiny"]), texts)
model, processor = adapter.model, adapter.processor
model = get_peft_model(model, LoraConfig(r=8, target_modules=adapter.LORA_TARGETS, modules_to_save=adapter.fresh_modules(model)))
model.print_trainable_parameters()

store = store_beside("gastric-x", processor.preprocessing)  # each CT is standardised once
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="lora-run",
        max_steps=20,
        learning_rate=3e-3,
        per_device_train_batch_size=24,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        logging_steps=5,
        use_cpu=True,
    ),
    train_dataset=rows,
    data_collator=VQACollator(processor, store, "image+table+bbox", train=True),
)
trainer.train()

merged = model.merge_and_unload()
merged.save_pretrained("lora-run/checkpoint")
processor.save_pretrained("lora-run/checkpoint")
AutoModel.from_pretrained("lora-run/checkpoint"), AutoProcessor.from_pretrained("lora-run/checkpoint")
print("next: gastricx predict lora-run/checkpoint --dataset gastric-x")
