"""Questions, answers, options and volumes to the tensors of X2-VLM-Med, and word pieces back to text."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from transformers import BertTokenizer
from transformers.feature_extraction_utils import BatchFeature
from transformers.processing_utils import ProcessorMixin

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Order fixes the ids 0..4 that `X2VLMMedConfig.tiny` expects."""


class X2VLMMedProcessor(ProcessorMixin):
    """Holds the tokenizer and the settings that the volumes were standardised with.

    Args:
        tokenizer: any BERT tokenizer; [CLS] starts and [SEP] ends questions and answers.
        preprocessing: settings of the standardisation as plain JSON values, saved with the checkpoint so that new volumes can be treated
            alike.
        max_length: longest text in word pieces; longer ones lose their end.
    """

    def __init__(self, tokenizer=None, preprocessing: dict | None = None, max_length: int = 256):
        super().__init__(tokenizer)
        self.preprocessing = preprocessing or {}
        self.max_length = max_length

    @property
    def model_input_names(self) -> list[str]:
        return ["input_ids", "attention_mask", "pixel_values", "phase_mask", "box_masks", "case_index"]

    def __call__(
        self,
        text: Sequence[str],
        volumes: Sequence | None = None,
        case_index: Sequence[int] | None = None,
        answers: Sequence[str] | None = None,
        options: Sequence[Sequence[str]] | None = None,
    ) -> BatchFeature:
        """One batch of B texts about C cases.

        Args:
            text: B questions with whatever the schema adds.
            volumes: C objects with `pixel_values` (P, X, Y, Z) float32, `phase_mask` (P,) bool and `box_mask` (S, X, Y, Z) or None.
            case_index: B positions in `volumes`; None where text i belongs to volume i.
            answers: B answers; gives `labels` (B, A), [CLS] answer [SEP], padded with -100.
            options: B lists of closed answers, empty for an open question; gives `option_ids` (B, K, A), padded with the pad token, and
                `option_mask` (B, K).

        Raises:
            ValueError: lists of different lengths, or volumes of different shapes.
        """
        for name, rows in (("case_index", case_index), ("answers", answers), ("options", options)):
            if rows is not None and len(rows) != len(text):
                raise ValueError(f"{name} has {len(rows)} entries for {len(text)} texts")
        batch = dict(self._tokenize(list(text)))
        if volumes is not None:
            batch |= self._stack(volumes)
            if case_index is None and len(volumes) != len(text):
                raise ValueError(f"{len(text)} texts for {len(volumes)} volumes: say with case_index which text asks about which")
        if case_index is not None:
            batch["case_index"] = torch.as_tensor(case_index, dtype=torch.long)
        if answers is not None:
            rows = self._tokenize(list(answers))
            batch["labels"] = rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)
        if options is not None:
            batch |= self._options(options)
        return BatchFeature(batch)

    def _tokenize(self, texts: list[str]) -> dict[str, torch.Tensor]:
        rows = self.tokenizer(
            texts, padding=True, truncation=True, max_length=self.max_length, return_tensors="pt", return_token_type_ids=False
        )
        return {"input_ids": rows["input_ids"], "attention_mask": rows["attention_mask"]}

    def _options(self, options) -> dict[str, torch.Tensor]:
        """Every distinct option is tokenised once and put in its places."""
        distinct = sorted({option for row in options for option in row}) or [""]
        ids = self._tokenize(distinct)["input_ids"]
        number = {option: i for i, option in enumerate(distinct)}
        mask = torch.zeros(len(options), max(1, *(len(row) for row in options)), dtype=torch.bool)
        place = torch.zeros(mask.shape, dtype=torch.long)
        for b, row in enumerate(options):
            mask[b, : len(row)] = True
            place[b, : len(row)] = torch.tensor([number[option] for option in row], dtype=torch.long)
        return {"option_ids": ids[place].masked_fill(~mask[:, :, None], self.tokenizer.pad_token_id), "option_mask": mask}

    @staticmethod
    def _stack(volumes) -> dict[str, torch.Tensor]:
        shapes = {v.pixel_values.shape for v in volumes}
        if len(shapes) != 1:
            raise ValueError(f"volumes of one batch must have one shape (phases, i, j, k), found {sorted(shapes)}: standardise them alike")
        batch = {
            "pixel_values": torch.from_numpy(np.stack([np.asarray(v.pixel_values, np.float32) for v in volumes])),
            "phase_mask": torch.from_numpy(np.stack([np.asarray(v.phase_mask, bool) for v in volumes])),
        }
        shown = next((v.box_mask for v in volumes if v.box_mask is not None), None)
        if shown is not None:  # a case without boxes, or in a schema without them, has empty masks: what the model takes None for
            masks = [np.zeros_like(shown) if v.box_mask is None else v.box_mask for v in volumes]
            batch["box_masks"] = torch.from_numpy(np.stack(masks)).to(torch.float32)
        return batch

    def decode_answers(self, ids: torch.Tensor) -> list[str]:
        """Token ids (B, A) of generated answers to text, without the spaces that word pieces put into numbers and Chinese words."""
        return [_close_gaps(text) for text in self.tokenizer.batch_decode(ids, skip_special_tokens=True)]


def _close_gaps(text: str) -> str:
    text = re.sub(r"(?<=\d)\s*([.,/:-])\s*(?=\d)", r"\1", text.strip())
    text = re.sub(r"\s*-\s*", "-", text)
    return re.sub(r"(?<=[㐀-鿿，。；：、])\s+|\s+(?=[㐀-鿿，。；：、])", "", text)


def build_tokenizer(texts: Iterable[str], vocab_size: int = 1200) -> BertTokenizer:
    """Make a small WordPiece vocabulary, for models without a pretrained one: lower case, Chinese characters one by one.

    It holds every letter, digit and mark, also inside of words, so that nothing is unknown that consists of them, and then whole words
    by frequency (equally frequent ones by alphabet: the same texts always give the same ids, which the trainer of `tokenizers` does
    not promise). Words with a digit are always spelled, so that all numbers share the digits.
    """
    spell = BertTokenizer(do_lower_case=True, tokenize_chinese_chars=True).backend_tokenizer
    counts = Counter()
    for text in texts:
        counts.update(word for word, _ in spell.pre_tokenizer.pre_tokenize_str(spell.normalizer.normalize_str(text)))
    characters = sorted({*string.ascii_lowercase, *string.digits, *string.punctuation, *"".join(counts)})
    pieces = [*SPECIAL_TOKENS, *characters, *(f"##{c}" for c in characters if c.isalnum() and not "㐀" <= c <= "鿿")]
    words = sorted((w for w, n in counts.items() if n > 1 and len(w) > 1 and not any(map(str.isdigit, w))), key=lambda w: (-counts[w], w))
    pieces += words[: max(0, vocab_size - len(pieces))]
    return BertTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, do_lower_case=True, tokenize_chinese_chars=True)
