"""Reports and question-answer pairs of a phantom patient, in English and Chinese, with varied phrasing.

Every answer stands in a sentence of the CT report or the diagnosis (paper Appendix D, facts.md P42); that sentence is
the pair's evidence. A `Kind` is one thing that is asked; one to three kinds for each of the paper's five categories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gastricx_hf.sources.phantom.truth import GROSS, PEAKS, SITES, Facts, Truth

CN_WORDS = {
    "upper third": "胃上部", "middle third": "胃中部", "lower third": "胃下部",
    "arterial phase": "动脉期", "venous phase": "静脉期", "delayed phase": "延迟期",
    "ulcerative": "溃疡型", "mass-forming": "肿块型",
    "none": "无", "liver": "肝脏", "peritoneum": "腹膜", "yes": "是", "no": "否",
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """One thing to ask: its category, possible answers (empty: open), the answer of a patient, and its wordings."""

    name: str
    category: str
    answers: tuple[str, ...]
    answer: Callable[[Facts], str]
    english: tuple[str, ...]
    chinese: tuple[str, ...]
    evidence: str
    source_report: str


def _yes(test: bool) -> str:
    return "yes" if test else "no"


YES_NO = ("no", "yes")
KINDS = (
    Kind("large", "lesion_centric", YES_NO, lambda f: _yes(f.large),
         ("Is the lesion larger than 5 cm?", "Does the maximum tumour diameter exceed 5 cm?", "Is this a bulky tumour of more than 5 cm?"),
         ("病灶最大径是否大于5厘米？", "肿瘤是否超过5厘米？"), "size", "ct"),
    Kind("gross", "lesion_centric", GROSS, lambda f: f.gross,
         ("What is the gross type of the tumour?", "How would the lesion be described macroscopically?",
          "Which gross appearance is given?"),
         ("肿瘤的大体类型是什么？", "病灶大体形态如何描述？"), "impression", "diagnosis"),
    Kind("impression", "lesion_centric", (), lambda f: f"{f.gross} carcinoma of the {f.site}",
         ("What is the overall impression of the primary tumour?", "How is the primary tumour summarised?",
          "What is concluded about the tumour?"),
         ("对原发肿瘤的总体印象是什么？", "原发肿瘤如何总结？"), "impression", "diagnosis"),
    Kind("peak", "enhancement_phase", PEAKS, lambda f: f.peak,
         ("In which phase does the lesion enhance most?", "When does the tumour reach its peak attenuation?",
          "Which phase shows the strongest enhancement of the lesion?"),
         ("病灶在哪一期强化最明显？", "肿瘤强化峰值出现在哪一期？"), "peak", "ct"),
    Kind("nodes", "staging_related", YES_NO, lambda f: _yes(f.n != "N0"),
         ("Are metastatic regional lymph nodes reported?", "Is regional nodal metastasis present?", "Are the perigastric nodes involved?"),
         ("是否有区域淋巴结转移？", "胃周淋巴结是否转移？"), "impression", "diagnosis"),
    Kind("distant", "staging_related", YES_NO, lambda f: _yes(f.spread != "none"),
         ("Is there distant metastasis?", "Is the disease metastatic?", "Does the conclusion mention distant spread?"),
         ("是否有远处转移？", "结论是否提示远处播散？"), "spread", "diagnosis"),
    Kind("site", "localization", SITES, lambda f: f.site,
         ("In which part of the stomach is the tumour?", "Where is the gastric lesion located?", "Which third of the stomach is involved?"),
         ("肿瘤位于胃的哪一部分？", "病灶位于何处？"), "site", "ct"),
    Kind("antrum", "yes_no_factual", YES_NO, lambda f: _yes(f.site == "lower third"),
         ("The tumour lies in the antral region: is this correct?", "Is it true that the antrum is the site of the lesion?"),
         ("肿瘤位于胃窦区，是否正确？", "病灶在胃窦，对吗？"), "site", "ct"),
)  # fmt: skip
"""The eight kinds, in the order in which a patient's questions are written."""


def reports(truth: Truth, language: str = "en") -> tuple[dict[str, str], dict[str, str]]:
    """The three reports ("ct", "endoscopy", "diagnosis") and the sentences that serve as evidence, by name."""
    sentences = _english(truth) if language == "en" else _chinese(truth)
    joiner = " " if language == "en" else ""
    texts = {
        "ct": joiner.join(sentences[s] for s in ("site", "size", "peak", "fat", "nodes", "ascites", "liver_ct")),
        "endoscopy": sentences["endoscopy"],
        "diagnosis": joiner.join(sentences[s] for s in ("impression", "spread")),
    }
    return texts, sentences


def questions(truth: Truth, language: str = "en") -> list[dict]:
    """The eight question-answer pairs in the release's layout; wording is drawn per patient."""
    _, sentences = reports(truth, language)
    rng = truth.rng(4 if language == "en" else 5)
    word = (lambda w: w) if language == "en" else (lambda w: CN_WORDS.get(w, w))
    rows = []
    for kind in KINDS:
        wordings = kind.english if language == "en" else kind.chinese
        text = wordings[rng.integers(len(wordings))]
        answer = word(kind.answer(truth.facts))
        if language == "cn" and kind.name == "impression":
            answer = f"{CN_WORDS[truth.facts.site]}{CN_WORDS[truth.facts.gross]}癌"
        rows.append({"question": text, "answer": answer, "category": kind.category,
                     "source_report": kind.source_report, "evidence": sentences[kind.evidence]})  # fmt: skip
    return rows


def _english(truth: Truth) -> dict[str, str]:
    f, rng = truth.facts, truth.rng(3)
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    spread = {"none": "No distant metastasis, M0.", "liver": "Metastases in the liver, M1.", "peritoneum": "Spread to the peritoneum, M1."}
    return {
        "site": pick("Irregular wall thickening in the {} of the stomach.", "The gastric wall is thickened in the {}.",
                     "A mural mass is seen in the {}.").format(f.site),
        "size": pick("Its maximum diameter is {} cm.", "The lesion measures up to {} cm.").format(f.size_cm),
        "peak": pick("Enhancement is strongest in the {}.", "The lesion reaches its peak in the {}.").format(f.peak),
        "fat": "The perigastric fat is hazy." if truth.stranding else pick("The perigastric fat is clear.", "Fat planes are preserved."),
        "nodes": "Several perigastric nodes are visible." if truth.nodes_visible else "No enlarged perigastric nodes.",
        "ascites": pick("Ascites is present.", "There is free fluid (ascites).") if f.ascites else pick("No ascites.", "No free fluid."),
        "liver_ct": "Hypodense lesions in the liver." if f.spread == "liver" else "The liver is unremarkable.",
        "endoscopy": pick("An {} lesion with friable mucosa; biopsies taken.",
                          "{} tumour, margins raised; biopsies taken.").format(f.gross),
        "impression": f"Impression: {f.gross} carcinoma of the {f.site}, {'with' if f.t == 'T4a' else 'without'} serosal invasion ({f.t}), "
                      f"{'with' if f.n != 'N0' else 'without'} regional lymph node metastasis ({f.n}).",
        "spread": spread[f.spread],
    }  # fmt: skip


def _chinese(truth: Truth) -> dict[str, str]:
    f, rng = truth.facts, truth.rng(3)
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    spread = {"none": "未见远处转移（M0）。", "liver": "肝脏转移（M1）。", "peritoneum": "腹膜种植转移（M1）。"}
    return {
        "site": pick("{}胃壁不规则增厚。", "{}见胃壁增厚。", "{}见占位性病变。").format(CN_WORDS[f.site]),
        "size": pick("最大径约{}厘米。", "病灶大小约{}厘米。").format(f.size_cm),
        "peak": pick("{}强化最明显。", "强化峰值位于{}。").format(CN_WORDS[f.peak]),
        "fat": "胃周脂肪间隙模糊。" if truth.stranding else "胃周脂肪间隙清晰。",
        "nodes": "胃周见多发淋巴结。" if truth.nodes_visible else "胃周未见肿大淋巴结。",
        "ascites": "可见腹水。" if f.ascites else "未见腹水。",
        "liver_ct": "肝内见低密度灶。" if f.spread == "liver" else "肝脏未见异常。",
        "endoscopy": pick("{}病灶，黏膜质脆，已取活检。", "{}肿物，边缘隆起，已取活检。").format(CN_WORDS[f.gross]),
        "impression": f"{CN_WORDS[f.site]}{CN_WORDS[f.gross]}癌，浆膜{'受侵' if f.t == 'T4a' else '未受侵'}（{f.t}），"
                      f"区域淋巴结{'转移' if f.n != 'N0' else '未见转移'}（{f.n}）。",
        "spread": spread[f.spread],
    }  # fmt: skip
