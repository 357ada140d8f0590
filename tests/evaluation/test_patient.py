import nibabel
import numpy as np
import pytest
from PIL import Image

from gastricx_hf.evaluation import patient
from gastricx_hf.schema import Box3D, Phase, Structure

SHAPE = (20, 16, 10)
MARK = (slice(14, 17), slice(3, 6), slice(6, 8))
BOX = {"structure": "tumor", "phase": "arterial", "min": [14, 3, 6], "max": [17, 6, 8]}


def volume():
    """Soft tissue with a bright mark on the patient's right, behind, towards the head (RAS)."""
    hu = np.full(SHAPE, 40, dtype=np.int16)
    hu[MARK] = 290
    return hu


@pytest.fixture
def drawn(monkeypatch):
    monkeypatch.setattr(patient, "save", lambda figure, path: figure)


def panels(figure):
    """(axial, coronal) axes of each phase."""
    return [figure.axes[i : i + 2] for i in range(0, 8, 2)]


def mark_on_screen(axes):
    """Middle of the bright pixels in fractions of the panel: 0, 0 is the lower left corner of what one sees."""
    shown = np.asarray(axes.images[0].get_array())
    row, column = (index.mean() for index in np.nonzero(shown > 200))
    return axes.transAxes.inverted().transform(axes.transData.transform((column, row)))


def test_right_of_the_patient_is_on_the_left_front_and_head_are_up(drawn):
    box = Box3D(Structure.TUMOR, Phase.ARTERIAL, (14, 3, 6), (17, 6, 8))
    figure = patient.patient_figure({phase: volume() for phase in Phase}, [box], (2.0, 2.0, 4.0), "unused.png")
    figure.draw_without_rendering()
    for axial, coronal in panels(figure):
        x, y = mark_on_screen(axial)
        assert (x, y) == pytest.approx((1 - 15.5 / 20, 4.5 / 16), abs=0.03)
        x, y = mark_on_screen(coronal)
        assert (x, y) == pytest.approx((1 - 15.5 / 20, 7 / 10), abs=0.03)
        assert axial.get_aspect() == 1
        assert coronal.get_aspect() == 2


def test_box_surrounds_what_it_names_solid_on_its_own_phase(drawn):
    box = Box3D(Structure.TUMOR, Phase.ARTERIAL, (14, 3, 6), (17, 6, 8))
    figure = patient.patient_figure({phase: volume() for phase in Phase}, [box], (1, 1, 1), "unused.png")
    for phase, (axial, coronal) in zip(Phase, panels(figure), strict=True):
        for axes in (axial, coronal):
            rows, columns = np.nonzero(np.asarray(axes.images[0].get_array()) > 200)
            (rectangle,) = axes.patches
            edges = rectangle.get_bbox()
            found = (edges.x0, edges.x1, edges.y0, edges.y1)
            assert found == (columns.min() - 0.5, columns.max() + 0.5, rows.min() - 0.5, rows.max() + 0.5)
            assert (rectangle.get_linestyle() in ("-", "solid")) == (phase == Phase.ARTERIAL)


def test_missing_phase_says_so(drawn):
    figure = patient.patient_figure({Phase.VENOUS: volume()}, [], (1, 1, 1), "unused.png", title="PHANTOM patient 1")
    said = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert said.count("not acquired") == 6
    assert [len(axial.images) for axial, _ in panels(figure)] == [0, 0, 1, 0]
    assert [text.get_text() for text in figure.texts] == ["PHANTOM patient 1"]


def test_volumes_on_different_grids_or_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match="on one"):
        patient.patient_figure({Phase.VENOUS: volume(), Phase.ARTERIAL: volume()[1:]}, [], (1, 1, 1), tmp_path / "f.png")
    with pytest.raises(ValueError, match="case 7: no volume"):
        patient.row_figure({"case_id": "7", "ct_venous": None}, tmp_path / "f.png")


def stored(hu, axes):
    """The same patient stored along other axes (nibabel codes), 2 x 2 x 4 mm, as an image; and its voxels' map from RAS."""
    affine = np.diag([2.0, 2.0, 4.0, 1.0])
    image = nibabel.Nifti1Image(hu, affine)
    change = nibabel.orientations.ornt_transform(nibabel.orientations.io_orientation(affine), nibabel.orientations.axcodes2ornt(axes))
    return image.as_reoriented(change)


@pytest.mark.parametrize("axes", ["RAS", "LPS", "ASR"])
def test_row_in_any_orientation_gives_the_same_picture(drawn, tmp_path, axes):
    cells = {}
    for phase in (Phase.ARTERIAL, Phase.VENOUS):
        image = stored(volume(), axes if phase == Phase.ARTERIAL else "RAS")
        path = tmp_path / f"{phase}.nii.gz"
        nibabel.save(image, path)
        cells[f"ct_{phase}"] = {"path": str(path), "bytes": None}
        if phase == Phase.ARTERIAL:
            bright = np.argwhere(np.asarray(image.dataobj) > 200)
            box = {**BOX, "min": bright.min(0).tolist(), "max": (bright.max(0) + 1).tolist()}
    Image.new("RGB", (6, 4), "red").save(tmp_path / "endoscopy.png")
    row = {"case_id": "1", **cells, "boxes": [box], "endoscopy": {"path": str(tmp_path / "endoscopy.png"), "bytes": None}}
    figure = patient.row_figure(row, "unused.png")
    figure.draw_without_rendering()
    for phase, (axial, coronal) in zip(Phase, panels(figure), strict=True):
        if phase in (Phase.ARTERIAL, Phase.VENOUS):
            assert mark_on_screen(axial) == pytest.approx((1 - 15.5 / 20, 4.5 / 16), abs=0.03)
            assert mark_on_screen(coronal) == pytest.approx((1 - 15.5 / 20, 7 / 10), abs=0.03)
            assert axial.patches[0].get_bbox().bounds == (13.5, 2.5, 3, 3)
    assert np.asarray(figure.axes[-1].images[0].get_array())[0, 0].tolist() == [255, 0, 0]


def test_picture_is_written(tmp_path):
    path = patient.patient_figure({Phase.VENOUS: volume()}, [], (1, 1, 1), tmp_path / "patient.png")
    assert list(tmp_path.iterdir()) == [path]
    assert np.asarray(Image.open(path).convert("L")).std() > 10
