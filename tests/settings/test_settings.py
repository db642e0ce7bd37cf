"""Flag beats argument beats environment beats default; a value that cannot be is an error that names its option."""

import inspect
import math
from typing import Any

import pytest

from streams import SettingsError, Streams
from streams.settings import Settings, resolve

DEFAULTS = {
    "url": "sqlite:///streams.db",
    "schema": "streams",
    "migrate": "auto",
    "lease_seconds": 10.0,
    "handover_seconds": 60.0,
    "shutdown_seconds": 20.0,
    "stall_seconds": 300.0,
    "connect_seconds": 10.0,
}

# For each option: as a flag, as an argument, as a variable, and the values they stand for.
LAYERS: dict[str, tuple[Any, Any, str, Any, Any, Any]] = {
    "url": ("memory://", "sqlite:///a.db", "sqlite:///b.db", "memory://", "sqlite:///a.db", "sqlite:///b.db"),
    "schema": ("shop", "mine", "yours", "shop", "mine", "yours"),
    "migrate": ("auto", "never", "never", "auto", "never", "never"),
    **dict.fromkeys(
        ("lease_seconds", "handover_seconds", "shutdown_seconds", "stall_seconds", "connect_seconds"),
        (31, 32.5, "33.5", 31.0, 32.5, 33.5),
    ),
}


def test_without_any_option_the_defaults_are_in_force() -> None:
    settings = Streams().settings
    assert {name: getattr(settings, name) for name in Settings.__struct_fields__} == DEFAULTS


def test_every_option_is_an_argument_that_is_not_given_by_default() -> None:
    parameters = dict(inspect.signature(Streams).parameters)
    assert parameters.keys() == DEFAULTS.keys() == LAYERS.keys()
    assert parameters.pop("url").kind is inspect.Parameter.POSITIONAL_ONLY
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert {parameter.default for parameter in parameters.values()} == {None}


@pytest.mark.parametrize("name", LAYERS)
def test_a_flag_beats_an_argument_beats_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    flag, argument, variable, by_flag, by_argument, by_variable = LAYERS[name]
    monkeypatch.setenv(f"STREAMS_{name.upper()}", variable)
    assert getattr(resolve({}, {}), name) == by_variable
    assert getattr(resolve({}, {name: argument}), name) == by_argument
    assert getattr(resolve({name: flag}, {name: argument}), name) == by_flag
    assert getattr(resolve({name: flag}, {}), name) == by_flag


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_not_given_is_never_the_default(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A flag or argument that says the default's value outranks a variable that says another; None says nothing."""
    monkeypatch.setenv(f"STREAMS_{name.upper()}", LAYERS[name][2])
    assert getattr(resolve({name: None}, {name: None}), name) == LAYERS[name][5]
    assert getattr(resolve({name: None}, {name: DEFAULTS[name]}), name) == DEFAULTS[name]
    assert getattr(resolve({name: DEFAULTS[name]}, {name: LAYERS[name][1]}), name) == DEFAULTS[name]


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DEFAULTS:
        monkeypatch.setenv(f"STREAMS_{name.upper()}", "")
    assert resolve({}, {}) == Settings()


def test_the_url_is_the_first_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMS_URL", "sqlite:///b.db")
    assert Streams().settings.url == "sqlite:///b.db"
    assert Streams("memory://").settings.url == "memory://"
    with pytest.raises(TypeError):
        Streams(url="memory://")  # type: ignore[call-arg]


def test_the_environment_counts_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Streams()
    monkeypatch.setenv("STREAMS_URL", "memory://")
    assert app.settings.url == "memory://"


def test_the_lease_is_told_in_microseconds() -> None:
    assert Streams(lease_seconds=1.5).settings.lease_micros == 1_500_000


SECONDS = ["handover_seconds", "shutdown_seconds", "stall_seconds", "connect_seconds"]

BAD: list[tuple[str, Any]] = [
    *[(name, value) for name in SECONDS for value in (0, -1, math.nan, math.inf, 86_401, "x", True, [1], 10**400)],
    *[("lease_seconds", value) for value in (0, 0.99, -1, math.nan, math.inf, 86_401, "x", True, b"1", 10**400)],
    *[("migrate", value) for value in ("always", "", True, 1)],
    *[("schema", value) for value in (7, b"streams", ["streams"])],
    *[("url", value) for value in (7, b"memory://", ["memory://"])],
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=lambda value: repr(value)[:20])
def test_a_bad_argument_or_flag_is_an_error_that_names_its_option(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{name}="):
        Streams(**{name: value}) if name != "url" else Streams(value)
    with pytest.raises(SettingsError, match=f"^{name}="):
        resolve({name: value}, {})


def test_an_error_names_argument_flag_and_variable() -> None:
    with pytest.raises(SettingsError) as refused:
        Streams(lease_seconds="soon")  # type: ignore[arg-type]
    assert str(refused.value) == (
        "lease_seconds='soon': Expected `float`, got `str` "
        "(argument lease_seconds, --lease-seconds or $STREAMS_LEASE_SECONDS)"
    )


@pytest.mark.parametrize("name", [name for name in DEFAULTS if name.endswith("_seconds")])
@pytest.mark.parametrize("value", ["x", "0", "-1", "nan", "inf", "1e999", "10 s", "0x10", "\udcff"], ids=ascii)
def test_a_bad_variable_is_an_error_that_names_its_option(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"STREAMS_{name.upper()}", value)
    with pytest.raises(SettingsError, match=f"^{name}="):
        Streams()


def test_a_bad_variable_that_is_outranked_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMS_LEASE_SECONDS", "x")
    assert Streams(lease_seconds=5).settings.lease_seconds == 5


@pytest.mark.parametrize("lease", [1, 1.0, "1", 86_400])
def test_a_lease_of_a_second_up_to_a_day_is_taken(lease: Any) -> None:
    assert Streams(lease_seconds=lease, stall_seconds=86_400).settings.lease_seconds == float(lease)


def test_a_stall_that_is_shorter_than_the_lease_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"stall_seconds=9 is shorter than lease_seconds=10"):
        Streams(stall_seconds=9)
    with pytest.raises(SettingsError, match=r"stall_seconds=300 is shorter than lease_seconds=301"):
        Streams(lease_seconds=301)
    assert Streams(lease_seconds=10, stall_seconds=10).settings.stall_seconds == 10


def test_an_unknown_option_is_no_argument() -> None:
    with pytest.raises(TypeError, match="lease"):
        Streams(lease=10)  # type: ignore[call-arg]
