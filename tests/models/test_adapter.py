"""A verb is offered or it is not; a misspelt one is an error."""

import pytest

from gastricx_hf.models.adapter import VERBS, offers
from gastricx_hf.models.x2vlm_med_adapter import X2VLMMedAdapter


class Classifier:
    name, view = "only-stages", "channels3d"
    generate = None

    def stage(self, batch):
        return batch


def test_offers():
    assert [verb for verb in VERBS if offers(Classifier(), verb)] == ["stage"]
    assert all(offers(X2VLMMedAdapter(None, None), verb) for verb in VERBS)
    with pytest.raises(ValueError, match="unknown verb 'stages'"):
        offers(Classifier(), "stages")
