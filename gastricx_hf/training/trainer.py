"""A `Trainer` with the two things that Gastric-X needs: patient-grouped batches and a faster text side."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from torch.utils.data import Sampler
from transformers import Trainer

TEXT_SIDE = ("text_encoder", "fusion", "decoder", "text_proj", "mlm_head")
"""Module names whose parameters train at `text_lr_multiplier` times the learning rate (paper 5.1, facts.md P47)."""


class PatientSampler(Sampler):
    """Yields the questions of a patient in groups that stay together, in a new order each epoch.

    A group shares one encoding of the volume; small groups bring more patients into a batch. The order depends on seed and
    epoch alone: a resumed run sees the batches that it would have seen.
    """

    def __init__(self, case_ids: list[str], group_size: int, seed: int):
        self.group_size, self.seed, self.epoch = group_size, seed, 0
        patients = defaultdict(list)
        for index, case_id in enumerate(case_ids):
            patients[case_id].append(index)
        self.patients = list(patients.values())

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return sum(map(len, self.patients))

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.epoch])
        groups = []
        for patient in self.patients:
            shuffled = rng.permutation(patient).tolist()
            groups += [shuffled[start : start + self.group_size] for start in range(0, len(shuffled), self.group_size)]
        for number in rng.permutation(len(groups)):
            yield from groups[number]


class GastricTrainer(Trainer):
    """`Trainer` that keeps a patient's questions in one batch and gives the text side its own learning rate."""

    def _get_train_sampler(self, train_dataset=None):
        dataset = self.train_dataset if train_dataset is None else train_dataset
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return PatientSampler(dataset["case_id"], self.args.questions_per_volume, seed)

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
