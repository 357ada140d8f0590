import pytest

from gastricx_hf.evaluation import tables
from gastricx_hf.evaluation.score import score_rows


def cells(table, title):
    """Rows of the table below a line, split into cells."""
    body = [line for line in table.split(title, 1)[1].strip().split("\n\n")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body if "---" not in line]


@pytest.fixture
def scores(make_rows):
    """Two models; schemas not in the paper's order."""
    found = []
    for model in ("reader", "other"):
        for schema in ("image+table+bbox", "image"):
            found += score_rows(make_rows(schema, model=model), n_resamples=20)
    return found


def test_one_row_per_model_and_schema_in_the_papers_order(scores):
    header, *rows = cells(tables.vqa_table(scores), "Closed questions:")
    assert header == ["Model", "Input", "Prec.", "Acc.", "F1", "AUC", "Questions", "Patients"]
    expected = [(model, schema) for model in ("reader", "other") for schema in ("Image", "Image + Table + BBox")]
    assert [tuple(row[:2]) for row in rows] == expected
    accuracy = next(s for s in scores if s.metric == "accuracy" and s.schema == "image")
    assert rows[0][3] == f"{accuracy.value:.1f} [{accuracy.low:.1f}, {accuracy.high:.1f}]"
    assert rows[0][6:] == ["48", "12"]
    assert cells(tables.vqa_table(scores), "Open questions:")[1][3].startswith("66.7 [66.7")


def test_phantom_is_said_in_the_title_and_only_there(scores, make_rows):
    assert "PHANTOM" in tables.vqa_table(scores).splitlines()[0]
    assert "PHANTOM" in tables.category_table(scores).splitlines()[0]
    real = score_rows(make_rows(phantom=False), n_resamples=5)
    assert "PHANTOM" not in tables.vqa_table(real) + tables.category_table(real)


@pytest.mark.parametrize("table", [tables.vqa_table, tables.category_table])
def test_phantom_and_real_scores_together_are_refused(scores, make_rows, table):
    real = score_rows(make_rows(phantom=False, model="third"), n_resamples=5)
    with pytest.raises(ValueError, match="phantom and real scores together"):
        table(scores + real)
    with pytest.raises(ValueError, match="no scores"):
        table([])


def test_the_same_run_twice_is_refused(scores):
    with pytest.raises(ValueError, match="two scores for reader, image"):
        tables.vqa_table(scores + scores)


def test_missing_score_is_a_dash_and_partial_is_said(make_rows):
    rows = [{**row, "provenance": {**row["provenance"], "partial": "9 of 20 questions"}} for row in make_rows() if row["reference"] == "no"]
    (row,) = cells(tables.vqa_table(score_rows(rows, n_resamples=5)), "Closed questions:")[1:]
    assert row[5] == "–"
    assert row[6].endswith("(partial: 9 of 20 questions)")


def test_category_table_has_a_row_per_category_of_closed_questions(scores):
    header, *rows = cells(tables.category_table(scores), "by category (PHANTOM: synthetic patients, not scores on Gastric-X)")
    assert header[2:] == ["reader, Image", "reader, Image + Table + BBox", "other, Image", "other, Image + Table + BBox"]
    assert [row[:2] for row in rows] == [["staging_related", "24"], ["yes_no_factual", "24"]]


def test_a_bar_in_a_model_name_does_not_break_the_table(make_rows):
    table = tables.vqa_table(score_rows(make_rows(model="a|b"), n_resamples=5))
    assert "| a\\|b |" in table
