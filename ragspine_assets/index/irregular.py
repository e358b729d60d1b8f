"""English words whose forms no rule of endings brings together."""

from __future__ import annotations

_FORMS = {
    # Plurals.
    "mouse": "mice", "louse": "lice", "foot": "feet", "tooth": "teeth", "goose": "geese", "man": "men",
    "woman": "women", "child": "children", "person": "people persons", "ox": "oxen", "die": "dice",
    "leaf": "leaves", "life": "lives", "knife": "knives", "wife": "wives", "wolf": "wolves", "half": "halves",
    "shelf": "shelves", "thief": "thieves", "calf": "calves", "loaf": "loaves", "hoof": "hooves", "scarf": "scarves",
    "analysis": "analyses", "basis": "bases", "crisis": "crises", "hypothesis": "hypotheses", "thesis": "theses",
    "axis": "axes", "diagnosis": "diagnoses", "emphasis": "emphases", "synthesis": "syntheses",
    "criterion": "criteria", "phenomenon": "phenomena", "index": "indices", "matrix": "matrices",
    "vertex": "vertices", "appendix": "appendices", "radius": "radii", "nucleus": "nuclei", "fungus": "fungi",
    "bacterium": "bacteria", "curriculum": "curricula", "stimulus": "stimuli", "formula": "formulae",
    "spectrum": "spectra", "stratum": "strata", "medium": "media", "datum": "data", "quantum": "quanta",
    # Verbs.
    "begin": "began begun", "break": "broke broken", "bring": "brought", "build": "built", "buy": "bought",
    "catch": "caught", "choose": "chose chosen", "draw": "drew drawn", "drink": "drank drunk", "drive": "drove driven",
    "eat": "ate eaten", "fall": "fallen", "fight": "fought", "fly": "flew flown", "forget": "forgot forgotten",
    "freeze": "froze frozen", "give": "gave given", "go": "went gone", "grow": "grew grown", "hold": "held",
    "keep": "kept", "know": "knew known", "leave": "left", "lose": "lost", "make": "made", "mean": "meant",
    "meet": "met", "pay": "paid", "ride": "rode ridden", "ring": "rang rung", "rise": "risen", "run": "ran",
    "say": "said", "see": "saw seen", "seek": "sought", "sell": "sold", "send": "sent", "shake": "shook shaken",
    "show": "shown", "shrink": "shrank shrunk", "sing": "sang sung", "sink": "sank sunk", "sleep": "slept",
    "speak": "spoke spoken", "spend": "spent", "spin": "spun", "stand": "stood", "steal": "stole stolen",
    "swim": "swam swum", "take": "took taken", "teach": "taught", "tear": "tore torn", "tell": "told",
    "think": "thought", "throw": "threw thrown", "understand": "understood", "wear": "wore worn", "win": "won",
    "write": "wrote written",
}  # fmt: skip

BASE_OF = {form: base for base, forms in _FORMS.items() for form in forms.split()}
"""The base of each irregular form."""
