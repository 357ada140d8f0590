"""Low-rank adapters on a family's declared targets."""

from __future__ import annotations


def add_lora(model, adapter_class, rank: int, alpha: int, dropout: float):
    """Wrap `model` with PEFT LoRA.

    The family says what is adapted (`LORA_TARGETS`, a regular expression over module names) and which parts have no
    pretrained weights and therefore train in full (`FRESH_MODULES`); both are saved with the adapter.
    """
    from peft import LoraConfig, get_peft_model

    fresh = [name for name in adapter_class.fresh_modules(model) if not name.startswith("_")]
    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=adapter_class.LORA_TARGETS, modules_to_save=fresh)
    return get_peft_model(model, config)
