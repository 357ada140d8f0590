"""X2-VLM-Med (paper Appendix C): 3D Swin tower, text encoder, fusion layers, answer decoder, and the heads of X2-VLM.

No such class exists in transformers. The cross-attention layers are BLIP's text layers, which are X2-VLM's under the same names.
Every method takes each case once: volumes are (C, ...), text rows are (B, ...), and `case_index` (B,) says which case a row asks about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from transformers import BertModel
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.models.blip.modeling_blip_text import BlipTextLMHeadModel, BlipTextModel

from gastricx_hf.models import x2vlm_med_losses as objectives
from gastricx_hf.models.heads import ContrastiveHead, MaskedWordHead, VisionAdapter, box_loss, mlp_head
from gastricx_hf.models.swin3d import PLACE_SIZE, Swin3DModel
from gastricx_hf.models.x2vlm_med_adapter import X2VLMMedAdapter
from gastricx_hf.models.x2vlm_med_config import X2VLMMedConfig
from gastricx_hf.models.x2vlm_med_processor import X2VLMMedProcessor

LOSSES = ("itc", "itm", "mlm", "box", "stage", "vqa")


class ImageFeatures(NamedTuple):
    """tokens (C, V, D), a mean token first, the regions of the structures last; embeds (C, E) of unit length."""

    tokens: torch.Tensor
    embeds: torch.Tensor


class TextFeatures(NamedTuple):
    """hidden (B, L, D); embeds (B, E) of unit length."""

    hidden: torch.Tensor
    embeds: torch.Tensor


@dataclass
class X2VLMMedOutput(ModelOutput):
    """loss: mean over rows of the answer's negative log-likelihood. logits: (B, A, vocabulary), position t predicts token t + 1."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None


def _keep_cross_mask(module, args, kwargs):
    """Hand the mask of the padded question to the decoder's cross-attention, which transformers 5.23 drops on the way.

    `BlipTextAttention` passes it as `attention_mask`, while `BlipTextSelfAttention` looks for `encoder_attention_mask`: without this an
    answer's likelihood depends on how long the other questions of the batch are.
    """
    if kwargs.get("encoder_attention_mask") is None:
        kwargs["encoder_attention_mask"] = kwargs.get("attention_mask")
    return args, kwargs


class X2VLMMedModel(PreTrainedModel):
    """All parts of X2-VLM-Med; `forward` is the question-answering path."""

    config_class = X2VLMMedConfig
    base_model_prefix = "x2vlm_med"
    main_input_name = "input_ids"
    input_modalities = ("image", "text")
    accepts_loss_kwargs = False  # the loss is a mean over rows, so Trainer has to divide it over accumulation steps
    _tied_weights_keys = {"mlm_head.3.weight": "text_encoder.embeddings.word_embeddings.weight"}

    def __init__(self, config: X2VLMMedConfig):
        super().__init__(config)
        width = config.text_config.hidden_size
        self.vision_encoder = Swin3DModel(config.vision_config)
        vision = config.vision_config
        regions = vision.feature_size, PLACE_SIZE
        self.vision_adapter = VisionAdapter(vision.hidden_size, width, vision.grid, regions, vision.num_structures)
        self.text_encoder = BertModel(config.text_config, add_pooling_layer=False)
        self.fusion = BlipTextModel(config.cross_config(config.fusion_layers), add_pooling_layer=False)
        self.fusion.embeddings = None  # it is fed hidden states
        self.decoder = BlipTextLMHeadModel(config.cross_config(config.decoder_layers))
        for layer in self.decoder.bert.encoder.layer:
            layer.crossattention.self.register_forward_pre_hook(_keep_cross_mask, with_kwargs=True)
        self.itc_head = ContrastiveHead(width, config.embed_dim, config.temperature)
        self.itm_head = mlp_head(width, 2)
        self.mlm_head = MaskedWordHead(width, config.text_config.vocab_size)
        self.bbox_head = mlp_head(width, 7)
        self.stage_head = mlp_head(width, config.num_stages)
        self.post_init()

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, ContrastiveHead):
            init.constant_(module.temperature, module.initial_temperature)

    def get_input_embeddings(self):
        return self.text_encoder.get_input_embeddings()

    def encode_image(self, pixel_values, phase_mask=None, box_masks=None) -> ImageFeatures:
        """Volumes (C, P, X, Y, Z) to tokens and contrastive embeddings; arguments as `Swin3DModel.forward`."""
        seen = self.vision_encoder(pixel_values, phase_mask, box_masks)
        tokens = self.vision_adapter(seen.last_hidden_state, seen.regions, seen.region_mask)
        return ImageFeatures(tokens, self.itc_head.image(tokens))

    def encode_text(self, input_ids, attention_mask=None) -> TextFeatures:
        """Token ids (B, L) to hidden states and contrastive embeddings."""
        hidden = self.text_encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return TextFeatures(hidden, self.itc_head.text(hidden))

    def fuse(self, text_hidden, attention_mask, image_tokens, case_index=None) -> torch.Tensor:
        """Let each text row look at its case: (B, L, D), (B, L), (C, V, D), (B,) -> (B, L, D).

        Raises:
            ValueError: no case_index, and not one case per row.
        """
        if case_index is not None:
            image_tokens = image_tokens[case_index]
        elif len(image_tokens) != len(text_hidden):
            raise ValueError(f"{len(text_hidden)} text rows for {len(image_tokens)} cases: say with case_index which row asks about which")
        return self.fusion(
            encoder_embeds=text_hidden, attention_mask=attention_mask, encoder_hidden_states=image_tokens, is_decoder=False
        ).last_hidden_state

    def read(self, inputs) -> torch.Tensor:
        """Fused states (B, L, D) of model inputs (a mapping with the names of `forward`); `image_tokens` in it spares the tower."""
        tokens = inputs.get("image_tokens")
        if tokens is None:
            tokens = self.encode_image(inputs["pixel_values"], inputs.get("phase_mask"), inputs.get("box_masks")).tokens
        hidden = self.encode_text(inputs["input_ids"], inputs.get("attention_mask")).hidden
        return self.fuse(hidden, inputs.get("attention_mask"), tokens, inputs.get("case_index"))

    def decode(self, answer_ids, fused, attention_mask=None) -> torch.Tensor:
        """Teacher-forced decoder logits (N, A, vocabulary) for answers (N, A) about fused questions (N, L, D)."""
        return self.decoder(answer_ids, encoder_hidden_states=fused, encoder_attention_mask=attention_mask, use_cache=False).logits

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        pixel_values=None,
        phase_mask=None,
        box_masks=None,
        case_index=None,
        labels=None,
        image_tokens=None,
        **kwargs,
    ) -> X2VLMMedOutput:
        """Answer questions.

        Args:
            input_ids, attention_mask: (B, L) questions, with the table's text where the schema has it.
            pixel_values, phase_mask, box_masks: (C, P, X, Y, Z), (C, P), (C, S, X, Y, Z) or None; see `Swin3DModel.forward`.
            case_index: (B,) case of each row; None means row i asks about case i.
            labels: (B, A) [CLS] answer [SEP], padded with -100; None gives neither loss nor logits.
            image_tokens: (C, V, D) of `encode_image`, instead of pixel_values.
        """
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "pixel_values": pixel_values, "phase_mask": phase_mask}
        fused = self.read(inputs | {"box_masks": box_masks, "case_index": case_index, "image_tokens": image_tokens})
        if labels is None:
            return X2VLMMedOutput()
        loss, logits = self._answer_loss(fused, attention_mask, labels)
        return X2VLMMedOutput(loss=loss, logits=logits)

    def _answer_loss(self, fused, attention_mask, labels):
        ids = labels.masked_fill(labels == -100, self.config.pad_token_id)
        logits = self.decode(ids, fused, attention_mask)
        return -objectives.sequence_log_prob(logits, ids, labels != -100).mean(), logits

    @torch.no_grad()
    def score_options(self, inputs, option_ids, option_mask=None, normalise=False, rows_at_once: int = 512) -> torch.Tensor:
        """Log-probability of every closed answer: X2-VLM's ranking, without its first-token preselection.

        Args:
            inputs: mapping with the names of `forward`.
            option_ids: (B, K, A) [CLS] answer [SEP], padded with pad_token_id.
            option_mask: (B, K) bool, which options a row has; None means all.
            normalise: divide by the number of tokens.

        Returns:
            (B, K), -inf where a row has no such option.
        """
        fused, mask = self.read(inputs), inputs.get("attention_mask")
        option_mask = torch.ones_like(option_ids[:, :, 0]) if option_mask is None else option_mask
        scores = torch.full(option_ids.shape[:2], -torch.inf, device=fused.device)
        for chunk in option_mask.bool().nonzero().split(rows_at_once):
            row, option = chunk.unbind(1)
            ids = option_ids[row, option]
            counted = ids != self.config.pad_token_id
            found = objectives.sequence_log_prob(self.decode(ids, fused[row], None if mask is None else mask[row]), ids, counted)
            scores[row, option] = found / counted[:, 1:].sum(1) if normalise else found
        return scores

    @torch.no_grad()
    def generate_answer(self, inputs, max_new_tokens: int = 16, **generation) -> torch.Tensor:
        """Write an answer to each row: (B, <= 1 + max_new_tokens) ids, [CLS] first; `generation` goes to `generate` (num_beams, ...)."""
        fused, config = self.read(inputs), self.config
        mask = inputs.get("attention_mask")
        return self.decoder.generate(
            input_ids=torch.full((len(fused), 1), config.bos_token_id, device=fused.device),
            encoder_hidden_states=fused,
            encoder_attention_mask=torch.ones(fused.shape[:2], device=fused.device, dtype=torch.long) if mask is None else mask,
            max_new_tokens=max_new_tokens,
            pad_token_id=config.pad_token_id,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            **generation,
        )

    def match(self, inputs) -> torch.Tensor:
        """(B,) probability that the text belongs to the case (ITM)."""
        return self.itm_head(self.read(inputs)[:, 0]).softmax(-1)[:, 1]

    def stage(self, inputs) -> torch.Tensor:
        """(B, num_stages) logits; the text must not tell the stage (no reports)."""
        return self.stage_head(self.read(inputs)[:, 0])

    def locate(self, inputs) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the structure named in the text is: (B, 6) centre and size relative to the volume, (i, j, k), and (B,) score in 0..1."""
        boxes, objectness = self._boxes(self.read(inputs))
        return boxes, objectness.sigmoid()

    def _boxes(self, fused):
        out = self.bbox_head(fused[:, 0])
        return out[:, :6].sigmoid(), out[:, 6]

    def losses(self, batch, names=LOSSES) -> dict[str, torch.Tensor]:
        """The objectives asked for, from one encoding of the batch.

        Args:
            batch: mapping with the names of `forward`, and `labels` for vqa; `boxes` (B, 6) centre and size in 0..1 and `box_present`
                (B,) for box; `stage` (B,) class or -100 for stage; `case_ids` (C,) where one patient may be several volumes.

        Raises:
            ValueError: an unknown name, or itm on a batch with one patient.
        """
        if unknown := set(names) - set(LOSSES):
            raise ValueError(f"unknown losses {sorted(unknown)}: expected some of {LOSSES}")
        image = self.encode_image(batch["pixel_values"], batch.get("phase_mask"), batch.get("box_masks"))
        text, mask = self.encode_text(batch["input_ids"], batch.get("attention_mask")), batch.get("attention_mask")
        index = batch.get("case_index")
        index = torch.arange(len(text.hidden), device=image.tokens.device) if index is None else index
        fused = self.fuse(text.hidden, mask, image.tokens, index) if set(names) - {"itc", "mlm"} else None
        positive = objectives.positive_pairs(len(image.tokens), index, batch.get("case_ids"))
        similarity = self.itc_head.similarity(image.embeds, text.embeds)
        found = {}
        if "itc" in names:
            found["itc"] = objectives.contrastive_loss(similarity, positive)
        if "itm" in names:
            found["itm"] = self._matching_loss(image, text, mask, fused, index, objectives.hard_negatives(similarity, positive, index))
        if "mlm" in names:
            found["mlm"] = self._masked_word_loss(image, batch["input_ids"], mask, index)
        if "box" in names:
            boxes, objectness = self._boxes(fused)
            found["box"] = box_loss(boxes, batch["boxes"], objectness, batch["box_present"])
        if "stage" in names:
            found["stage"] = objectives.mean_cross_entropy(self.stage_head(fused[:, 0]), batch["stage"])
        if "vqa" in names:
            found["vqa"] = self._answer_loss(fused, mask, batch["labels"])[0]
        return found

    def _matching_loss(self, image, text, mask, fused, index, negatives):
        """True pairs against each text with a wrong volume and each volume with a wrong text."""
        images, texts = negatives
        wrong_image = self.fuse(text.hidden, mask, image.tokens, images)
        wrong_text = self.fuse(text.hidden[texts], None if mask is None else mask[texts], image.tokens, index)
        cls = torch.cat([fused[:, 0], wrong_image[:, 0], wrong_text[:, 0]])
        target = torch.zeros(len(cls), dtype=torch.long, device=cls.device)
        target[: len(fused)] = 1
        return F.cross_entropy(self.itm_head(cls), target)

    def _masked_word_loss(self, image, input_ids, mask, index):
        cfg = self.config
        special = [cfg.pad_token_id, cfg.bos_token_id, cfg.eos_token_id, cfg.mask_token_id]
        masked, labels = objectives.mask_words(input_ids, special, cfg.mask_token_id, cfg.mask_probability)
        fused = self.fuse(self.encode_text(masked, mask).hidden, mask, image.tokens, index)
        return objectives.mean_cross_entropy(self.mlm_head(fused), labels)


AUTO = {
    "AutoConfig": X2VLMMedConfig,
    "AutoModel": X2VLMMedModel,
    "AutoModelForImageTextToText": X2VLMMedModel,
    "AutoProcessor": X2VLMMedProcessor,
}
"""What auto.py registers for this file."""

ADAPTER = X2VLMMedAdapter
"""The class that wraps this family's models (loading.py)."""
