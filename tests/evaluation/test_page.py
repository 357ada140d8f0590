import re

import pytest
from PIL import Image

from gastricx_hf.evaluation.page import write_page
from gastricx_hf.evaluation.score import score_run


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    Image.new("RGB", (3, 3), "blue").save(path)
    return path


def page(run, picture, **options):
    scores = score_run(run, n_resamples=20, train_rows=options.pop("train_rows", []))
    figures = {"patient": picture, "schemas": picture, "training": picture}
    facts = {"Recipe": "LoRA rank 8"}
    return write_page(run, scores, options.pop("figures", figures), facts, **options).read_text(encoding="utf-8"), scores


def test_page_holds_everything_and_loads_nothing(run, picture):
    html, scores = page(run, picture, next_commands=[("gastricx push RUN --repo you/name", "See what would be published")])
    assert "PHANTOM: synthetic patients" in html
    assert html.count('src="data:image/png;base64,') == 3
    assert not re.search(r"https?://|<link|<script|@import|url\(", html)
    assert not re.search(r'src="(?!data:)', html)
    for score in scores:
        if score.metric in ("precision", "accuracy", "f1", "auc", "token_f1") and score.group == "all":
            assert f"{score.value:.1f} <span" in html
            assert score.variant in html
    for text in ("LoRA rank 8", "gastricx push RUN", "See what would be published", "staging related", "majority answer", "dddddddddddd<"):
        assert text in html
    assert str(run) not in html


def test_page_is_well_formed(run, picture):
    from html.parser import HTMLParser

    void, stack = {"meta", "br", "img"}, []

    class Checker(HTMLParser):
        def handle_starttag(self, tag, attrs):
            stack.append(tag) if tag not in void else None

        def handle_endtag(self, tag):
            assert stack.pop() == tag

    Checker().feed(page(run, picture)[0])
    assert stack == []


def test_examples_are_of_the_asked_patient_and_marked_right_or_wrong(run, picture, make_rows):
    html, _ = page(run, picture, case_id="P003")
    assert "Patient P003" in html
    rows = [row for row in make_rows("image", skill=1.0) if row["case_id"] == "P003"]
    first = next(row for row in rows if row["category"] == "staging_related")
    mark = "✓" if first["prediction"] == first["reference"] else "✗"
    assert re.search(rf"{first['question'].replace('?', '[?]')}.*?{mark} {first['prediction']}</span>", html, re.S)
    with pytest.raises(ValueError, match="no predictions for patient P999"):
        page(run, picture, case_id="P999")


def test_text_from_the_data_is_escaped(run, picture, make_rows, write):
    for schema in ("image", "image+table", "image+bbox", "image+table+bbox"):
        rows = [{**row, "question": "<script>alert(1)</script>"} for row in make_rows(schema)]
        write(run / "predictions" / f"vqa-{schema}.jsonl", rows)
    html, _ = page(run, picture)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_real_run_has_no_phantom_banner_and_figures_are_optional(run, make_rows, write, tmp_path):
    for path in (run / "predictions").iterdir():
        path.unlink()
    write(run / "predictions" / "vqa-image.jsonl", make_rows("image", phantom=False))
    html, _ = page(run, None, figures={}, train_rows=None, out=tmp_path / "elsewhere.html")
    assert "PHANTOM" not in html
    assert "<img" not in html
    assert "majority answer" not in html


def test_unknown_figure_is_refused(run, picture):
    with pytest.raises(ValueError, match=r"unknown figures \['radar'\]"):
        page(run, picture, figures={"radar": picture})
