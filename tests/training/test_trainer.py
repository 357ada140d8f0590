"""Patient-grouped order and the two learning rates, checked on plain objects."""

from gastricx_hf.training.trainer import PatientSampler

CASES = [f"P{n // 15}" for n in range(75)]


def test_groups_stay_together_and_every_question_comes_once():
    sampler = PatientSampler(CASES, 5, seed=0)
    order = list(sampler)
    assert sorted(order) == list(range(75))
    assert len(sampler) == 75
    assert all(len({CASES[i] for i in order[start : start + 5]}) == 1 for start in range(0, 75, 5))
    assert len({CASES[order[start]] for start in range(0, 25, 5)}) > 1  # small groups mix patients


def test_order_is_a_function_of_seed_and_epoch():
    one, two = PatientSampler(CASES, 15, seed=0), PatientSampler(CASES, 15, seed=0)
    first = list(one)
    one.set_epoch(1)
    second = list(one)
    two.set_epoch(1)
    assert first != second == list(two)
    assert list(PatientSampler(CASES, 15, seed=1)) != first
