"""Text layers of X2-VLM-Med from a BERT checkpoint, as X2-VLM starts its own: fusion from the last layers, decoder from the fusion."""

from __future__ import annotations

import torch
from torch import nn


def text_setup(name: str) -> tuple[object, dict]:
    """Tokenizer of a BERT checkpoint (Hub id or folder) and the arguments of `X2VLMMedConfig` that follow from it.

    Raises:
        ValueError: it is not a BERT model, or its tokenizer lacks a special token.
    """
    from transformers import AutoConfig, AutoTokenizer

    tokenizer, text = AutoTokenizer.from_pretrained(name), AutoConfig.from_pretrained(name)
    if text.model_type != "bert":
        raise ValueError(f"{name} is a {text.model_type} model: X2-VLM-Med needs a BERT")
    ids = {
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        "mask_token_id": tokenizer.mask_token_id,
    }
    if lacking := [token for token, number in ids.items() if number is None]:
        raise ValueError(f"the tokenizer of {name} has no {', '.join(lacking)}")
    return tokenizer, {"text_config": text, "text_model_name": name, **ids}


@torch.no_grad()
def load_text_weights(model, name: str) -> None:
    """Copy a BERT checkpoint into the text encoder, its last layers into fusion and decoder, its embeddings into the decoder.

    Cross-attention has no counterpart in BERT and stays random.

    Raises:
        ValueError: the checkpoint lacks weights of the text encoder, or has fewer layers than the fusion.
    """
    from transformers import BertModel

    text, report = BertModel.from_pretrained(name, add_pooling_layer=False, output_loading_info=True)
    if report["missing_keys"]:
        raise ValueError(f"{name} lacks {sorted(report['missing_keys'])[:5]} of a BERT encoder")
    model.text_encoder.load_state_dict(text.state_dict())
    for target in (model.fusion, model.decoder.bert):
        _copy_last_layers(text.encoder.layer, target.encoder.layer)
    for part in ("word_embeddings", "position_embeddings", "LayerNorm"):
        getattr(model.decoder.bert.embeddings, part).load_state_dict(getattr(text.embeddings, part).state_dict())


def _copy_last_layers(source: nn.ModuleList, target: nn.ModuleList) -> None:
    if len(source) < len(target):
        raise ValueError(f"{len(target)} layers cannot be started from a text encoder of {len(source)}")
    for ours, theirs in zip(target, source[-len(target) :], strict=True):
        lost = ours.load_state_dict(theirs.state_dict(), strict=False)
        strange = [key for key in lost.missing_keys if "crossattention" not in key]
        if strange or lost.unexpected_keys:
            raise ValueError(f"text layers do not fit the cross-encoder: {strange + lost.unexpected_keys}")
