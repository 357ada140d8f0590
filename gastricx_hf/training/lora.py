"""Low-rank adapters on a family's declared targets."""

from __future__ import annotations

from gastricx_hf.models.loading import family


def add_lora(model, rank: int, alpha: int, dropout: float):
    """Wrap `model` with PEFT LoRA.

    The family's adapter class declares what is adapted (`LORA_TARGETS`, a regular expression over module names) and what
    trains in full because no checkpoint supplied it (`fresh_modules(model)`): adapting frozen random weights would teach
    little. Both travel with the adapter.
    """
    from peft import LoraConfig, get_peft_model

    declared = family(model.config.model_type)
    return get_peft_model(
        model,
        LoraConfig(
            r=rank,
            lora_alpha=alpha,
            lora_dropout=dropout,
            target_modules=declared.LORA_TARGETS,
            modules_to_save=declared.fresh_modules(model),
        ),
    )
