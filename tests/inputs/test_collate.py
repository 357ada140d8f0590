from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, DatasetDict, Image, List, Nifti, Value
from PIL import Image as Picture

from gastricx_hf.inputs.collate import VQACollator, undecoded
from gastricx_hf.inputs.guard import LeakError
from gastricx_hf.preprocessing.settings import Standardization
from gastricx_hf.preprocessing.store import StandardStore
from gastricx_hf.schema import Schema

SETTINGS = Standardization((8, 6, 5), (2, 2, 3))


def processor(**arguments):
    """Hands back what a processor would be given."""
    return arguments


@pytest.fixture
def store():
    return StandardStore(None, SETTINGS)


@pytest.fixture
def rows(make_question):
    cases = ["P02", "P01", "P02", "P03", "P01"]
    return [make_question(case_id, number=n, answer="The Antrum." if n else "No") for n, case_id in enumerate(cases)]


def test_each_patient_once_and_each_row_its_own(rows, store):
    batch = VQACollator(processor, store, Schema.IMAGE_TABLE_BBOX, train=True)(rows)
    assert set(batch) == {"text", "volumes", "case_index", "answers"}
    assert batch["case_index"] == [0, 1, 0, 2, 1]
    assert len(batch["volumes"]) == 3
    for row, index in zip(rows, batch["case_index"], strict=True):
        hu = np.clip(Nifti().decode_example(row["ct_venous"]).get_fdata(), -100, 300)
        np.testing.assert_allclose(batch["volumes"][index].pixel_values[2], (hu - hu.mean()) / hu.std(), atol=1e-5)
        assert batch["volumes"][index].box_mask.sum() == 3 * 3 * 2
    assert all(text.startswith("Where is the tumour? Laboratory findings: CEA") for text in batch["text"])


def test_training_gives_answers_spelled_as_options_are_and_evaluation_gives_options(rows, store):
    train = VQACollator(processor, store, Schema.IMAGE, train=True)(rows)
    assert train["answers"] == ["no"] + ["antrum"] * 4
    rows[1]["options"] = []
    evaluation = VQACollator(processor, store, "image", train=False)(rows)
    assert set(evaluation) == {"text", "volumes", "case_index", "options"}
    assert evaluation["options"][:2] == [["antrum", "body", "cardia"], []]
    assert evaluation["volumes"][0].box_mask is None


def test_mixed_schemas_are_drawn_per_batch_alike_in_every_run(make_question, store):
    drawn = []
    for n in range(200):
        rows = [make_question(case_id, number=10 * n + m) for m, case_id in enumerate(["P01", "P02"])]
        one, again, other = (VQACollator(processor, store, list(Schema), train=True, seed=s) for s in (3, 3, 4))
        assert one.draw_schema(rows) == again.draw_schema(rows)
        drawn.append((one.draw_schema(rows), other.draw_schema(rows)))
    counts = [[first for first, _ in drawn].count(schema) for schema in Schema]
    assert min(counts) > 25  # 50 expected of each, standard deviation 6
    assert sum(a == b for a, b in drawn) < 90  # another seed draws apart: 50 expected


def test_a_batch_has_the_drawn_schema(make_question, store):
    collator = VQACollator(processor, store, list(Schema), train=True, seed=0)
    for n in range(12):
        rows = [make_question(case_id, number=10 * n + m) for m, case_id in enumerate(["P01", "P02", "P01"])]
        batch, schema = collator(rows), collator.draw_schema(rows)
        assert all(("Laboratory" in text) == schema.table for text in batch["text"])
        assert all((volume.box_mask is not None) == schema.bbox for volume in batch["volumes"])


def test_evaluation_refuses_a_mixture_and_training_an_empty_one(store):
    for schemas, train in (([Schema.IMAGE, Schema.IMAGE_TABLE], False), ([], True)):
        with pytest.raises(ValueError, match="one input schema"):
            VQACollator(processor, store, schemas, train=train)


def test_a_leak_stops_the_batch(rows, store):
    rows[3]["labs"][0]["name"] = "pT3 CEA"
    with pytest.raises(LeakError, match="P03-3"):
        VQACollator(processor, store, Schema.IMAGE_TABLE, train=True)(rows)
    with pytest.raises(LeakError, match="reports"):
        VQACollator(processor, store, Schema.IMAGE, train=True)([rows[0] | {"reports": {}}])


def as_dataset(rows, picture: Path) -> Dataset:
    Picture.new("RGB", (4, 4)).save(picture)
    dataset = Dataset.from_list([row | {"endoscopy": {"path": str(picture), "bytes": None}} for row in rows])
    for phase in ("non_contrast", "arterial", "venous", "delayed"):
        dataset = dataset.cast_column(f"ct_{phase}", Nifti())
    dataset = dataset.cast_column("endoscopy", Image())
    return dataset.cast_column("options", List(Value("string")))


def test_rows_of_a_real_dataset_plain_and_streamed(rows, store, tmp_path):
    dataset = as_dataset(rows, tmp_path / "endoscopy.png")
    assert hasattr(dataset[0]["ct_venous"], "dataobj")
    expected = VQACollator(processor, store, Schema.IMAGE_TABLE_BBOX, train=False)(rows)
    for plain in (undecoded(dataset), undecoded(DatasetDict(test=dataset))["test"], undecoded(dataset.to_iterable_dataset())):
        read = list(plain)
        assert read[0]["ct_venous"]["path"] == rows[0]["ct_venous"]["path"]
        assert isinstance(read[0]["endoscopy"], dict)
        batch = VQACollator(processor, store, Schema.IMAGE_TABLE_BBOX, train=False)(read)
        assert {k: batch[k] for k in ("text", "case_index", "options")} == {k: expected[k] for k in ("text", "case_index", "options")}
        for got, want in zip(batch["volumes"], expected["volumes"], strict=True):
            np.testing.assert_array_equal(got.pixel_values, want.pixel_values)
            np.testing.assert_array_equal(got.box_mask, want.box_mask)


def test_decoded_rows_give_the_same_volumes(rows, store, tmp_path):
    dataset = as_dataset(rows, tmp_path / "endoscopy.png")
    decoded = VQACollator(processor, store, Schema.IMAGE, train=True)(list(dataset))
    plain = VQACollator(processor, store, Schema.IMAGE, train=True)(rows)
    for got, want in zip(decoded["volumes"], plain["volumes"], strict=True):
        np.testing.assert_array_equal(got.pixel_values, want.pixel_values)


def test_a_stream_without_features_is_refused():
    from datasets import IterableDataset

    with pytest.raises(ValueError, match="features of this stream are unknown"):
        undecoded(IterableDataset.from_generator(lambda: iter([{"case_id": "P01"}])))
