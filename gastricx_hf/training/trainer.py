"""A `Trainer` with the two things that Gastric-X needs: patient-grouped batches and a faster text side."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from torch.utils.data import Sampler
from transformers import Trainer

TEXT_SIDE = ("text_encoder", "fusion", "decoder", "text_proj", "mlm_head")
"""Module names whose parameters train at `text_lr_multiplier` times the learning rate (paper 5.1, facts.md P47)."""


class PatientSampler(Sampler):
    """Shuffles patients each epoch and yields each patient's questions together, so that a volume is encoded once for all.

    The order depends on seed and epoch alone: a resumed run sees the batches that it would have seen.
    """

    def __init__(self, case_ids: list[str], seed: int):
        self.seed, self.epoch = seed, 0
        groups = defaultdict(list)
        for index, case_id in enumerate(case_ids):
            groups[case_id].append(index)
        self.groups = list(groups.values())

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return sum(map(len, self.groups))

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.epoch])
        for number in rng.permutation(len(self.groups)):
            yield from self.groups[number]


class GastricTrainer(Trainer):
    """`Trainer` that keeps a patient's questions in one batch and gives the text side its own learning rate."""

    def _get_train_sampler(self, train_dataset=None):
        dataset = self.train_dataset if train_dataset is None else train_dataset
        return PatientSampler(dataset["case_id"], self.args.data_seed or self.args.seed)

    def create_optimizer(self, model=None):
        """AdamW in four groups: visual or text side, with or without weight decay (none on biases and norms)."""
        if self.optimizer is None:
            model = self.model if model is None else model
            decayed = set(self.get_decay_parameter_names(model))
            optimizer_class, options = self.get_optimizer_cls_and_kwargs(self.args, model)
            rate = options.pop("lr")
            groups = defaultdict(list)
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    groups[any(part in name for part in TEXT_SIDE), name in decayed].append(parameter)
            self.optimizer = optimizer_class(
                [
                    {
                        "params": parameters,
                        "lr": rate * (self.args.text_lr_multiplier if text else 1.0),
                        "weight_decay": self.args.weight_decay if decay else 0.0,
                    }
                    for (text, decay), parameters in groups.items()
                ],
                **options,
            )
        return self.optimizer
