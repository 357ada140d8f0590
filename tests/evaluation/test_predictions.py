import json

import pytest

from gastricx_hf.evaluation.predictions import read_predictions


def test_reads_what_was_written_also_with_unusual_line_ends_in_the_text(make_rows, write, tmp_path):
    rows = make_rows()
    rows[0]["question"] = "one\u2028two\x85three"
    assert read_predictions(write(tmp_path / "p.jsonl", rows)) == rows


def nan_everywhere(rows):
    for row in rows:
        row["option_logprobs"] = [float("nan") for _ in row["options"]]


def another_seed(rows):
    rows[0]["provenance"] = {**rows[0]["provenance"], "seed": 7}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.append(rows[1]), r"1 with duplicate example_id: P000-yes_no_factual-1"),
        (lambda rows: rows[2].pop("case_id"), r"1 with missing fields, or .* wrong type: line 3: case_id"),
        (lambda rows: rows[2].update(options="yes"), r"line 3: options"),
        (nan_everywhere, r"48 with option_logprobs that are not finite numbers: P000-yes_no_factual-0; .* \.\.\."),
        (lambda rows: rows[0]["option_logprobs"].pop(), r"1 with not one option_logprob per option: P000-yes_no_factual-0"),
        (lambda rows: rows[0].update(reference="maybe"), r"1 with a reference that is not among the options: P000-yes_no_factual-0"),
        (lambda rows: rows[0].update(prediction="maybe"), r"1 with a prediction that is not the best"),
        (lambda rows: rows[0].update(answer_type="open"), r"1 with an answer_type that does not fit"),
        (lambda rows: rows[0].update(schema="image+bbox"), r"2 different values of schema.*: image\+bbox, image; score them apart"),
        (another_seed, r"2 different values of provenance.*: seed \['0', '7'\]; score them apart"),
        (lambda rows: rows.clear(), r"no predictions to score"),
    ],
)
def test_bad_files_are_refused_by_name_with_count_and_ids(make_rows, write, tmp_path, change, message):
    rows = make_rows()
    change(rows)
    path = write(tmp_path / "p.jsonl", rows)
    with pytest.raises(ValueError, match=message) as error:
        read_predictions(path)
    assert str(path) in str(error.value)


def test_half_a_line_is_refused(make_rows, write, tmp_path):
    path = write(tmp_path / "p.jsonl", make_rows())
    path.write_text(path.read_text()[:-40] + "\n[1]\n")
    with pytest.raises(ValueError, match=r"1 with not JSON .*: line 72"):
        read_predictions(path)
    path.write_text(json.dumps([1]) + "\n")
    with pytest.raises(ValueError, match="1 with not a JSON object: line 1"):
        read_predictions(path)
