import pytest

from gastricx_hf.inputs.guard import LeakError, check_prompt, check_row
from gastricx_hf.inputs.labs import abnormal_labs_text
from gastricx_hf.tasks.vqa import COLUMNS, NEVER_SHOW

EVIDENCE = "Irregular wall thickening in the gastric antrum; the serosa is hazy. No ascites."
LABELS = {
    "t_stage": "T3",
    "overall_stage": "III",
    "site": "lesser curvature",
    "positive_nodes": 7,
    "reports": {"ct": "The liver shows two hypodense lesions. No free fluid.", "diagnosis": "胃窦癌，浆膜受侵。"},
}
LEAKS = {
    "the answer": "Laboratory findings: none. Antrum.",
    "the answer in another case and width": "note: ＡＮＴＲＵＭ involved",
    "a T code": "CEA 23.4 ng/mL; T3",
    "a pathological T code": "assessed as pT4a",
    "a joined code": "cT3N1M0 disease",
    "an N code in brackets": "(N2)",
    "an M code beside Chinese": "结论M1。",
    "an item as if it were a laboratory value": "N Stage 2, 2x the upper limit",
    "stage words": "clinical stage III",
    "a Chinese stage": "考虑III期",
    "a Chinese stage in a Roman numeral character": "Ⅲ期",
    "the Chinese word for staging": "临床分期未明",
    "a TNM mention": "TNM pending",
    "a node count": "Positive Lymph Nodes 7",
    "a fraction of nodes": "LN 7/25",
    "a bare fraction": "dissected 7/25",
    "Chinese nodes": "淋巴结 7 枚",
    "the whole evidence": f"note. {EVIDENCE}",
    "a sentence of the evidence": "The  serosa is HAZY",
    "a stage by its label": "class III of four",
    "another label of the case": "lesser curvature",
    "a sentence of a report": "the liver shows two hypodense lesions",
    "a sentence of a Chinese report": "浆膜受侵、胃窦癌,浆膜受侵",
}
CLEAN = [
    "",
    "Laboratory findings: CEA 23.4 ng/mL, 4.7x the upper limit; Hemoglobin 95 g/L, 0.73x the lower limit",
    "No laboratory value is outside its reference range.",
    "No laboratory values were recorded.",
    "CA125 80 U/mL, 2.3x the upper limit; CA724 31 U/mL, 4.5x the upper limit; CA199 3000 U/mL, 81.1x the upper limit",
    "Platelet Count 420 10^9/L, 1.2x the upper limit; ALT 61 U/L; Total Protein 55 g/L, 0.85x the lower limit; Urea (BUN) 9 mmol/L",
    "arterial phase, 动脉期, phase 1, advantage of antral imaging, viii",
]


def row(make_question, **changes) -> dict:
    return make_question(answer="Antrum.", **changes) | {"evidence": EVIDENCE}


@pytest.mark.parametrize("kind", LEAKS)
def test_planted_leaks_are_found(make_question, kind):
    with pytest.raises(LeakError, match="vqa, P01-0"):
        check_prompt(LEAKS[kind], row(make_question), LABELS)


@pytest.mark.parametrize("prompt", CLEAN)
def test_clean_prompts_pass(make_question, prompt):
    check_prompt(prompt, row(make_question), LABELS)


def test_the_error_names_task_column_and_words(make_question):
    with pytest.raises(LeakError, match=r"staging, P01-0: .*evidence: 'the serosa is hazy'"):
        check_prompt("the serosa is hazy", row(make_question), task="staging")
    with pytest.raises(LeakError, match="T, N or M code: 'pt4a'"):
        check_prompt("pT4a", row(make_question))


def test_yes_and_no_are_in_every_sentence(make_question):
    for answer in ("No", "yes.", "否"):
        check_prompt("No laboratory values were recorded, yes.", make_question(answer=answer))


def test_the_answer_counts_only_as_whole_words(make_question):
    check_prompt("bodyguard antibody", make_question(answer="body"))
    check_prompt("size 12.5 cm", make_question(answer="2.5 cm"))
    check_prompt("size 12.5 cm", make_question(answer="5 cm"))
    check_prompt("size 12.5 cm", make_question(answer="12"))
    with pytest.raises(LeakError, match="answer"):
        check_prompt("size 2.5 cm.", make_question(answer="2.5 cm"))
    with pytest.raises(LeakError, match="answer"):
        check_prompt("肿瘤位于胃下部附近", make_question(answer="胃下部"))


def test_a_bare_number_may_stand_in_the_rows_own_laboratory_values(make_question):
    labs = abnormal_labs_text(make_question()["labs"])
    check_prompt(labs, make_question(answer="95"))
    check_prompt(labs, make_question(answer="3"))
    for answer in ("95", "23.4"):
        with pytest.raises(LeakError, match="answer"):
            check_prompt(f"{labs}; seen: {answer}", make_question(answer=answer))
    with pytest.raises(LeakError, match="answer"):
        check_prompt("Hemoglobin 7 g/L, 0.05x the lower limit", make_question(answer="7"))


@pytest.mark.parametrize("column", sorted(set(NEVER_SHOW) - {"answer"}))
def test_columns_that_the_task_must_never_show_are_refused(make_question, column):
    check_row(make_question(), COLUMNS)
    with pytest.raises(LeakError, match=f"vqa: .*{column}"):
        check_row(make_question() | {column: "x"}, COLUMNS)
