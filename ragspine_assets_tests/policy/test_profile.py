import pickle
import traceback
from pathlib import Path

import pytest

from ragspine_assets.policy import DimensionSpec, DomainProfile, ProfileError, SensitivityPolicy, load_profile

FULL = """
[home]
company_name = "Synth Group"
entity_code = "GRP"
[home.synonyms]
"synth group" = "GRP"
"シンス" = "SUBA"
[home.geography]
GRP = "GLOBAL"
SUBB = "SOUTH"
[home.labels]
GRP = "Group"
[external_entities]
"rival corp" = "RivalCorp"
[sensitivity]
default_level = "confidential"
escalate_unknown_to_restricted = false
restricted_filename_patterns = ["board/"]
restricted_keywords = ["strictly private"]
[dimensions.metric]
label = "Metric"
kind = "measure"
required = true
synonyms = { revenue = "REV" }
units = { REV = "USD_M", EBIT = "USD_M" }
labels = { REV = "Revenue" }
[dimensions.geography]
identity = false
derived_from = "entity"
derivation = { GRP = "GLOBAL" }
"""


@pytest.fixture
def write(tmp_path):
    def _write(text: str) -> Path:
        path = tmp_path / "profile.toml"
        path.write_bytes(text.encode())
        return path

    return _write


def test_every_section_is_read(write):
    profile = load_profile(write(FULL))
    assert profile.home_company_name == "Synth Group"
    assert profile.home_entity_code == "GRP"
    assert profile.home_entity_synonyms == {"synth group": "GRP", "シンス": "SUBA"}
    assert profile.entity_geography == {"GRP": "GLOBAL", "SUBB": "SOUTH"}
    assert profile.home_entity_labels == {"GRP": "Group"}
    assert profile.external_entities == {"rival corp": "RivalCorp"}
    assert profile.sensitivity == SensitivityPolicy("CONFIDENTIAL", False, ["board/"], ["strictly private"])
    assert [spec.name for spec in profile.dimensions] == ["metric", "geography"]
    metric, geography = profile.dimensions
    assert (metric.label, metric.kind, metric.required, metric.synonyms) == (
        "Metric",
        "measure",
        True,
        {"revenue": "REV"},
    )
    assert (geography.identity, geography.derived_from, geography.derivation) == (False, "entity", {"GRP": "GLOBAL"})


def test_the_vocabulary_of_the_graph_comes_from_all_sections(write):
    profile = load_profile(write(FULL + '[dimensions.entity]\nsynonyms = { subc = "SUBC", "synth group" = "OTHER" }\n'))
    assert profile.entity_codes() == ("GRP", "OTHER", "SUBA", "SUBB", "SUBC")
    assert profile.metric_codes() == ("EBIT", "REV")
    assert profile.synonym_entities() == {"Group": "GRP", "synth group": "GRP", "シンス": "SUBA", "subc": "SUBC"}


@pytest.mark.parametrize("text", ["", "\ufeff", "[home]\n", "[dimensions]\n[sensitivity]\n", "# nothing\r\n"])
def test_an_absent_section_is_empty_and_nothing_is_built_in(write, text):
    profile = load_profile(write(text))
    assert profile == DomainProfile()
    assert profile.entity_codes() == profile.metric_codes() == profile.dimensions == ()
    assert profile.sensitivity == SensitivityPolicy()
    assert profile.digest() == DomainProfile().digest()


def test_every_wrong_value_is_named_with_the_file_in_one_message(write):
    path = write(
        """
        dimensions.metric = 3
        dimensions.period = { required = "yes", synonyms = ["a"], default = 1 }
        external_entities = "rival"
        [home]
        company_name = 7
        synonyms = { acme = 1, "" = "X" }
        [sensitivity]
        default_level = "SECRET"
        restricted_keywords = ["a", 2]
        escalate_unknown_to_restricted = "no"
        """
    )
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    message = str(caught.value)
    assert message.startswith(f"profile {path}: ")
    for part in (
        "dimensions.metric must be a table, not a number",
        "dimensions.period.required must be true or false, not a string",
        "dimensions.period.synonyms must be a table, not a list",
        "dimensions.period.default must be a string, not a number",
        "external_entities must be a table, not a string",
        "home.company_name must be a string, not a number",
        "home.synonyms.acme must be a string, not a number",
        "home.synonyms has a blank key",
        "sensitivity.default_level 'SECRET' is no sensitivity label",
        "sensitivity.restricted_keywords: entry 2 must be a string, not a number",
        "sensitivity.escalate_unknown_to_restricted must be true or false, not a string",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("text", "named", "meant"),
    [
        ("[sensitivty]\nrestricted_keywords = ['x']", "sensitivty is an unknown section", "sensitivity"),
        (
            "[sensitivity]\nrestricted_keyword = ['x']",
            "sensitivity.restricted_keyword",
            "sensitivity.restricted_keywords",
        ),
        ("[sensitivity]\nkeywords = ['x']", "sensitivity.keywords", "sensitivity.restricted_keywords"),
        ("[sensitivity.marking]\nRESTRICTED = ['x']", "sensitivity.marking", "sensitivity.markings"),
        ("[markings]\nRESTRICTED = ['x']", "markings is an unknown section", "sensitivity.markings"),
        ("restricted_keywords = ['x']", "restricted_keywords is an unknown key", "sensitivity.restricted_keywords"),
        ("[Sensitivity]\n", "Sensitivity is an unknown section", "sensitivity"),
        ("[label]\nx = 'PUBLIC'", "label is an unknown section", "labels"),
        ("[home]\nsynonym = {}", "home.synonym", "home.synonyms"),
        ("[dimensions.a]\nsynonims = {}", "dimensions.a.synonims", "dimensions.a.synonyms"),
        ("[external_entity]\n", "external_entity", "external_entities"),
    ],
)
def test_an_unknown_section_or_key_is_an_error_that_names_the_nearest_known_one(write, text, named, meant):
    with pytest.raises(ProfileError) as caught:
        load_profile(write(text))
    assert named in str(caught.value)
    assert f"did you mean {meant}?" in str(caught.value)


def test_a_key_that_resembles_nothing_is_an_error_that_lists_what_there_is(write):
    with pytest.raises(ProfileError, match=r"zzz is an unknown key.*sensitivity"):
        load_profile(write("zzz = 1"))


def test_markings_and_carried_labels_are_read(write):
    policy = load_profile(
        write("[sensitivity.markings]\nconfidential = ['Vertraulich']\n[labels]\n'Board only' = 'restricted'\n")
    ).sensitivity
    assert policy.markings == (("CONFIDENTIAL", ("Vertraulich",)),)
    assert policy.labels == (("Board only", "RESTRICTED"),)


@pytest.mark.parametrize(
    "text", ["[sensitivity.markings]\nSECRET = ['x']", "[labels]\nx = 'SECRET'", "[labels]\nx = 1"]
)
def test_a_level_that_is_no_label_is_an_error(write, text):
    with pytest.raises(ProfileError, match=r"SECRET|must be a string"):
        load_profile(write(text))


@pytest.mark.parametrize(
    ("raw", "part"), [(b"[home", "no valid TOML"), (b"\xff\xfe", "not UTF-8"), (None, "cannot be read")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, raw, part):
    path = tmp_path / "p.toml"
    if raw is not None:
        path.write_bytes(raw)
    with pytest.raises(ProfileError, match=part) as caught:
        load_profile(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[a]\n"Zanzibarquux" = 1\n"Zanzibarquux" = 2\n', "line 3, column"),
        ("[Zanzibarquux]\n[Zanzibarquux]\n", "line 2, column"),
        ("x = { Zanzibarquux = 1, Zanzibarquux = 2 }", "line 1, column"),
        ("x = Zanzibarquux", "line 1, column 5"),
        ("x = " + "9" * 5000, "too long"),
        ("x = " + "[" * 5000, "deeply"),
    ],
)
def test_a_fault_of_a_profile_is_told_by_its_place_and_quotes_nothing(tmp_path, text, place):
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(ProfileError, match=place) as caught:
        load_profile(path)
    assert "anzibarquux" not in "".join(traceback.format_exception(caught.value))


def test_a_profile_is_read_only(write):
    profile = load_profile(write(FULL))
    with pytest.raises(TypeError):
        profile.home_entity_synonyms["x"] = "y"  # pyright: ignore[reportIndexIssue]
    with pytest.raises(TypeError):
        profile.dimensions[0].synonyms["x"] = "y"  # pyright: ignore[reportIndexIssue]
    source = {"a": "A"}
    frozen = DomainProfile(home_entity_synonyms=source)
    source["b"] = "B"
    assert frozen.home_entity_synonyms == {"a": "A"}


def test_the_digest_depends_on_content_and_not_on_order(write):
    one = DomainProfile(home_entity_synonyms={"a": "A", "b": "B"}, dimensions=(DimensionSpec("x"), DimensionSpec("y")))
    same = DomainProfile(home_entity_synonyms={"b": "B", "a": "A"}, dimensions=(DimensionSpec("y"), DimensionSpec("x")))
    assert one.digest() == same.digest()
    base = load_profile(write(FULL)).digest()
    for old, new in (
        ("USD_M", "EUR_M"),
        ("board/", "hr/"),
        ("RivalCorp", "Rival"),
        ("GLOBAL", "WORLD"),
        ("Synth", "S"),
    ):
        assert load_profile(write(FULL.replace(old, new))).digest() != base


def test_a_profile_travels_between_processes(write):
    profile = load_profile(write(FULL))
    copy = pickle.loads(pickle.dumps(profile))
    assert copy == profile
    assert hash(copy) == hash(profile)
    assert copy.digest() == profile.digest()
