"""Every setting of a fine-tuning run; each field is a flag of `gastricx train`."""

from __future__ import annotations

from dataclasses import dataclass, field

from transformers import TrainingArguments

from gastricx_hf.schema import Schema


@dataclass
class GastricTrainingArguments(TrainingArguments):
    """`transformers.TrainingArguments` with the paper's recipe as defaults (facts.md P47-P49) and what Gastric-X adds.

    The paper gives AdamW, 5e-5, weight decay 0.01, batch size 32, 10% linear warm-up then linear decay, and the text
    encoder at twice the visual rate; it is read here as 5e-5 for the visual side (facts.md I24). Epochs, precision and
    accumulation are unspecified there. LoRA is this project's addition: the paper has none.
    """

    output_dir: str | None = field(default="runs/vqa", metadata={"help": "run folder: checkpoint/, predictions/, scores.json"})
    dataset: str = field(default="gastric-x", metadata={"help": "folder made by `gastricx build`"})
    model: str = field(default="x2vlm-med:tiny", metadata={"help": "FAMILY:SIZE for a new model, or a checkpoint folder or Hub id"})
    schemas: list[str] = field(
        default_factory=lambda: [Schema.IMAGE_TABLE_BBOX.value],
        metadata={"help": "input schemas to train on; with several, one is drawn per batch, a repeated one more often"},
    )
    preset: str = field(default="tiny", metadata={"help": "standardisation preset of a new model: paper, compact or tiny"})
    limit: int | None = field(default=None, metadata={"help": "train on the first N questions only, for a quick look"})
    questions_per_volume: int = field(
        default=15, metadata={"help": "questions of one patient that share a batch, and one encoding of the volume"}
    )
    lora: bool = field(default=True, metadata={"help": "low-rank adapters (PEFT) instead of full fine-tuning"})
    lora_rank: int = field(default=8, metadata={"help": "rank r of the adapters"})
    lora_alpha: int = field(default=16, metadata={"help": "scale of the adapters (alpha / r)"})
    lora_dropout: float = field(default=0.0, metadata={"help": "dropout before the adapters"})
    text_lr_multiplier: float = field(default=2.0, metadata={"help": "learning rate of the text side over that of the visual side"})

    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    per_device_train_batch_size: int = 32
    warmup_steps: float = 0.1
    lr_scheduler_type: str = "linear"
    num_train_epochs: float = 10.0
    save_strategy: str = "epoch"
    save_total_limit: int | None = 1
    logging_steps: float = 10
    logging_first_step: bool = True
    remove_unused_columns: bool = False
    report_to: None | str | list[str] = "none"  # noqa: RUF036 (HfArgumentParser wants None first)
    dataloader_pin_memory: bool = False

    def __post_init__(self):
        self.schemas = [Schema(s).value for s in self.schemas]
        super().__post_init__()
