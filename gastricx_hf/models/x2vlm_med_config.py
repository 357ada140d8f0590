"""Sizes of X2-VLM-Med: the paper's, and a tiny one for tests and the demo."""

from __future__ import annotations

from transformers import BertConfig
from transformers.configuration_utils import PreTrainedConfig
from transformers.models.blip.configuration_blip import BlipTextConfig

from gastricx_hf.models.swin3d import Swin3DConfig


class X2VLMMedConfig(PreTrainedConfig):
    """3D Swin tower, text encoder, fusion layers and answer decoder (paper Appendix C; X2-VLM base with the image tower exchanged).

    Attributes:
        vision_config: the tower (Swin3DConfig or its dict).
        text_config: the text encoder (BertConfig or its dict); fusion and decoder take their width, heads and dropout from it.
        text_model_name: where the text encoder's weights come from. The paper says "MedBERT [51]", which cannot be told apart from several
            models (English: Charangan/MedBERT, microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract-fulltext; Chinese:
            trueto/medbert-base-chinese). Empty: the text parts start from random weights. Building the model downloads nothing; see
            x2vlm_med_text.py.
        fusion_layers, decoder_layers: 6 and 6 in X2-VLM base.
        embed_dim, temperature: of the contrastive loss.
        num_stages: classes of the stage head (overall stage I..IV).
        mask_probability: share of words masked in masked-word modelling (X2-VLM: one half).
        tie_word_embeddings: share the text encoder's embedding matrix with the masked-word head, and the decoder's with its output layer.
        bos_token_id, eos_token_id: [CLS] and [SEP]; an answer is [CLS] words [SEP].
    """

    model_type = "x2vlm-med"
    sub_configs = {"vision_config": Swin3DConfig, "text_config": BertConfig}

    vision_config: dict | Swin3DConfig | None = None
    text_config: dict | BertConfig | None = None
    text_model_name: str = "Charangan/MedBERT"
    fusion_layers: int = 6
    decoder_layers: int = 6
    embed_dim: int = 256
    temperature: float = 0.07
    num_stages: int = 4
    mask_probability: float = 0.5
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    pad_token_id: int = 0
    bos_token_id: int = 101
    eos_token_id: int = 102
    mask_token_id: int = 103

    def __post_init__(self, **kwargs):
        if not isinstance(self.vision_config, Swin3DConfig):
            self.vision_config = Swin3DConfig(**(self.vision_config or {}))
        if not isinstance(self.text_config, BertConfig):
            self.text_config = BertConfig(**(self.text_config or {}))
        super().__post_init__(**kwargs)

    @classmethod
    def full(cls, **kwargs) -> X2VLMMedConfig:
        """The paper's sizes, about 250 M parameters: 288x288x192 voxels, Swin feature size 48, BERT-base, 6 + 6 layers (P36, App. C)."""
        return cls(**kwargs)

    @classmethod
    def tiny(cls, vocab_size: int = 1200, volume_shape=(64, 64, 32), **kwargs) -> X2VLMMedConfig:
        """A model that trains in seconds on one CPU core; same code, all parts. Token ids are those of `build_tokenizer`.

        Nothing is tied, so that LoRA can hold embeddings and output layers as `modules_to_save`.
        """
        vision = Swin3DConfig(
            volume_shape=tuple(volume_shape),
            feature_size=16,
            patch_size=4,
            window_size=4,
            depths=(1, 1, 1, 1),
            num_heads=(2, 4, 8, 16),
            swin_stage=2,
            initializer_range=0.125,
        )
        text = BertConfig(
            vocab_size=vocab_size,
            hidden_size=64,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=256,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=0.125,
        )
        defaults = {"vision_config": vision, "text_config": text, "text_model_name": "", "fusion_layers": 1, "decoder_layers": 1}
        defaults |= {"embed_dim": 32, "initializer_range": 0.125, "tie_word_embeddings": False}
        defaults |= {"bos_token_id": 2, "eos_token_id": 3, "mask_token_id": 4}
        return cls(**(defaults | kwargs))

    @property
    def num_phases(self) -> int:
        return self.vision_config.num_phases

    @property
    def num_structures(self) -> int:
        return self.vision_config.num_structures

    @property
    def volume_shape(self) -> tuple[int, int, int]:
        """Voxels along (i, j, k) that `pixel_values` must have."""
        return tuple(self.vision_config.volume_shape)

    def cross_config(self, layers: int) -> BlipTextConfig:
        """Configuration of the fusion layers or of the decoder: text layers with cross-attention."""
        text = self.text_config
        same = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings", "hidden_act")
        same += ("layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
        return BlipTextConfig(
            **{name: getattr(text, name) for name in same},
            encoder_hidden_size=text.hidden_size,
            num_hidden_layers=layers,
            is_decoder=True,
            tie_word_embeddings=self.tie_word_embeddings,
            pad_token_id=self.pad_token_id,
            bos_token_id=self.bos_token_id,
            eos_token_id=self.eos_token_id,
            sep_token_id=self.eos_token_id,
        )
