import numpy as np
import pytest

from gastricx_hf.preprocessing import intensity


def test_zscore_by_hand():
    """Mean 1.5, population variance 1.25."""
    normal, mean, std = intensity.zscore(np.array([0, 1, 2, 3], np.int16))
    assert (mean, std) == (1.5, pytest.approx(1.25**0.5))
    np.testing.assert_allclose(normal, (np.array([0, 1, 2, 3]) - 1.5) / 1.25**0.5, rtol=1e-6)
    assert normal.dtype == np.float32


def test_statistics_of_a_large_volume_do_not_lose_precision():
    hu = np.full((256, 256, 64), 300, np.int16)
    hu[::2] = -100
    assert intensity.zscore_statistics(hu) == (pytest.approx(100, abs=1e-9), pytest.approx(200, abs=1e-9))


@pytest.mark.parametrize(("fill", "words"), [(40.0, "constant"), (np.nan, "NaN"), (np.inf, "NaN or infinite")])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_volumes_without_a_zscore_are_refused(fill, words):
    with pytest.raises(ValueError, match=words):
        intensity.zscore(np.full((3, 3, 3), fill, np.float32))


def test_clipping_keeps_the_type_and_never_wraps():
    clip = (-100.0, 300.0)
    for dtype in (np.int16, np.int32, np.float32):
        got = intensity.clip_hu(np.array([-1024, 0, 3000], dtype), clip)
        assert (got.dtype, got.tolist()) == (dtype, [-100, 0, 300])
    assert intensity.clip_hu(np.array([0, 65535], np.uint16), clip).tolist() == [0, 300]
