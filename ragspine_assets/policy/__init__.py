"""What everybody obeys: the lattice, the folding of text, the labelling policy, the profile, the security gate."""

from ragspine_assets.policy.folding import fold_text, fold_with_offsets
from ragspine_assets.policy.gate import Detection, SecurityGate, Verdict
from ragspine_assets.policy.labelling import (
    Aside,
    CarriedLabel,
    FileLabels,
    Finding,
    LabelVerdict,
    SensitivityPolicy,
    classify_sensitivity,
    explain_sensitivity,
)
from ragspine_assets.policy.lattice import Sensitivity, is_known_label, is_restricted, most_restricted, read_label
from ragspine_assets.policy.profile import DimensionSpec, DomainProfile, ProfileError, load_profile
from ragspine_assets.policy.references import document_reference

__all__ = [
    "Aside",
    "CarriedLabel",
    "Detection",
    "DimensionSpec",
    "DomainProfile",
    "FileLabels",
    "Finding",
    "LabelVerdict",
    "ProfileError",
    "SecurityGate",
    "Sensitivity",
    "SensitivityPolicy",
    "Verdict",
    "classify_sensitivity",
    "document_reference",
    "explain_sensitivity",
    "fold_text",
    "fold_with_offsets",
    "is_known_label",
    "is_restricted",
    "load_profile",
    "most_restricted",
    "read_label",
]
