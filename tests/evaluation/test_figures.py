import numpy as np
import pytest
from PIL import Image

from gastricx_hf.evaluation import figures
from gastricx_hf.evaluation.score import score_rows

SCHEMAS = ["image+table+bbox", "image", "image+bbox", "image+table"]


@pytest.fixture
def scores(make_rows):
    return [score for skill, schema in enumerate(SCHEMAS) for score in score_rows(make_rows(schema, skill=skill), n_resamples=20)]


@pytest.fixture
def drawn(monkeypatch):
    """Figures come back as matplotlib figures instead of files."""
    monkeypatch.setattr(figures, "save", lambda figure, path: figure)


def words(figure):
    figure.draw_without_rendering()
    return " ".join(text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")))


def test_bars_are_the_scores_in_the_papers_order(scores, drawn):
    figure = figures.schemas_figure(scores, {"image": 71.0, "image+bbox": 88.0}, 40.0, 52.0, "unused.png")
    (axes,) = figure.axes
    expected = [s.value for schema in figures.Schema for s in scores if (s.metric, s.group, s.schema) == ("accuracy", "all", schema)]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(expected)
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["Image", "Image + Table", "Image + BBox", "Image + Table + BBox"]
    shown = words(figure)
    for text in ("PHANTOM", "71.0", "88.0", "majority answer (40.0)", "question alone (52.0)", "48 questions of 12 patients"):
        assert text in shown


def test_what_is_not_known_is_not_drawn(scores, make_rows, drawn):
    real = score_rows(make_rows(phantom=False), n_resamples=5)
    shown = words(figures.schemas_figure(real, None, None, None, "unused.png"))
    for text in ("PHANTOM", "oracle", "majority", "question alone"):
        assert text not in shown


def test_several_models_or_phantom_beside_real_are_refused(scores, make_rows, tmp_path):
    other = score_rows(make_rows(model="other"), n_resamples=5)
    with pytest.raises(ValueError, match="one model, not 2"):
        figures.schemas_figure(scores + other, None, None, None, tmp_path / "f.png")
    real = score_rows(make_rows(phantom=False), n_resamples=5)
    with pytest.raises(ValueError, match="phantom and real scores together"):
        figures.schemas_figure(scores + real, None, None, None, tmp_path / "f.png")
    assert not list(tmp_path.iterdir())


def test_training_curve_shows_every_loss_and_their_running_mean(drawn):
    losses = [[10 * step, value] for step, value in enumerate(np.linspace(3, 1, 40))]
    figure = figures.training_figure(losses, "unused.png")
    raw, mean = figure.axes[0].lines
    assert np.array(raw.get_xydata()).tolist() == losses
    assert mean.get_ydata()[-1] == pytest.approx(np.mean([value for _, value in losses[-4:]]))
    assert mean.get_ydata()[0] == pytest.approx(3)


def test_files_are_pictures_and_nothing_is_left_aside(scores, tmp_path):
    paths = [figures.schemas_figure(scores, None, None, None, tmp_path / "new" / "schemas.png")]
    paths.append(figures.training_figure([[1, 2.0]], tmp_path / "new" / "training.png"))
    assert sorted((tmp_path / "new").iterdir()) == sorted(paths)
    for path in paths:
        assert np.asarray(Image.open(path).convert("L")).std() > 10


def test_no_losses_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no training losses"):
        figures.training_figure([], tmp_path / "f.png")
