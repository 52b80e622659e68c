"""Settings that do not fit together, and database addresses that would show their password: refused at the start."""

from __future__ import annotations

import pytest

from taskyard_scheduler.main import EXIT_SETTINGS, main
from taskyard_scheduler.settings import SchedulerSettings
from taskyard_service.settings import SettingsError

SECRET = {"TASKYARD_SECRET": "x" * 40}


def load(**variables: str) -> SchedulerSettings:
    return SchedulerSettings.load(SECRET | {f"TASKYARD_{name.upper()}": value for name, value in variables.items()})


# How the times fit together.


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"lease_s": "5"}, ["TASKYARD_LEASE_S is 5 and", "INTERVAL_S is 10", "LEASE_S to 30 or", "INTERVAL_S to 1 or"]),
        ({"lease_s": "29"}, ["LEASE_S is 29", "at least 3 times", "LEASE_S to 30 or", "INTERVAL_S to 9 or less"]),
        ({"heartbeat_interval_s": "15", "lease_s": "44"}, ["LEASE_S is 44", "INTERVAL_S is 15", "LEASE_S to 45 or"]),
        ({"worker_silence_s": "19"}, ["WORKER_SILENCE_S is 19", "at least 2 times", "WORKER_SILENCE_S to 20 or"]),
        ({"heartbeat_interval_s": "60"}, ["LEASE_S to 180 or", "WORKER_SILENCE_S to 120 or"]),
    ],
)
def test_times_in_which_no_heartbeat_may_be_late_are_refused(
    variables: dict[str, str], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(**variables)
    for words in said:
        assert words in str(caught.value)
    assert main([], SECRET | {f"TASKYARD_{name.upper()}": value for name, value in variables.items()}) == EXIT_SETTINGS
    assert said[0] in capsys.readouterr().err


@pytest.mark.parametrize("interval", [1, 2, 10, 20, 60])
def test_the_least_times_are_those_that_the_refusal_names(interval: int) -> None:
    lease, silence = max(5, 3 * interval), 2 * interval
    load(heartbeat_interval_s=str(interval), lease_s=str(lease), worker_silence_s=str(silence))
    if lease > 5:
        with pytest.raises(SettingsError, match=f"LEASE_S to {lease} or more"):
            load(heartbeat_interval_s=str(interval), lease_s=str(lease - 1), worker_silence_s=str(silence))


def test_the_defaults_fit_also_for_exclusive_tasks() -> None:
    assert load().exclusive_risk() == ""


@pytest.mark.parametrize(("interval", "lease", "risky"), [(1, 5, True), (1, 6, True), (1, 7, False), (4, 12, True)])
def test_a_lease_too_short_for_exclusive_tasks_is_said(interval: int, lease: int, risky: bool) -> None:
    risk = load(heartbeat_interval_s=str(interval), lease_s=str(lease)).exclusive_risk()
    assert bool(risk) is risky
    if risky:
        assert f"TASKYARD_LEASE_S is {lease}; where such tasks run, set it to {2 * interval + 5} or more" in risk


# What a database address may look like.

RAW = ["p@ss", "p/w", "p:w", "p?w", "p#w", "p@ss/w:rd", "@", "a@b@c", "/", "hunter2@", "@hunter2", "p@x:3306/y"]


@pytest.mark.parametrize("password", RAW)
@pytest.mark.parametrize("scheme", ["mysql+pymysql", "mysql", "mariadb+pymysql"])
def test_a_password_that_is_not_encoded_is_refused_and_no_part_of_it_shown(
    scheme: str, password: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{scheme}://theuser:{password}@127.0.0.1:33906/thename"
    assert main([], SECRET | {"TASKYARD_DATABASE": url}) == EXIT_SETTINGS
    shown = capsys.readouterr()
    assert shown.out == ""
    (sentence,) = shown.err.splitlines()
    assert sentence.startswith("taskyard scheduler: TASKYARD_DATABASE ")
    assert "must be percent-encoded" in sentence
    assert "p%40ss" in sentence
    for part in (url, "theuser", "thename", "127.0.0.1", "33906", "hunter2", "ss/w", "rd@"):
        assert part not in sentence


@pytest.mark.parametrize("user", ["u@x", "u/x", "u?x", "u#x", "u:x:y"])
def test_a_user_that_is_not_encoded_is_refused(user: str) -> None:
    with pytest.raises(SettingsError, match="must be percent-encoded"):
        load(database=f"mysql+pymysql://{user}:p@127.0.0.1/ty")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////home/me@work/a:b/c?d/taskyard.db",
        "mysql+pymysql://u:p%40ss%2Fw%3Ard%3F%23%25@127.0.0.1:33906/ty",
        "mysql+pymysql://u@127.0.0.1/ty",
        "mysql+pymysql://127.0.0.1/ty",
        "mysql+pymysql://u:p!$&'()*+,;=~p@[::1]:3306/ty?charset=utf8mb4",
        "",
    ],
)
def test_an_encoded_address_is_taken_as_it_is(url: str) -> None:
    settings = load(database=url)
    assert settings.database.get_secret_value() == url
    assert not url or settings.database_url() == url


def test_the_settings_do_not_show_the_password() -> None:
    settings = load(database="mysql+pymysql://u:hunter2@127.0.0.1/ty")
    assert "hunter2" not in f"{settings!r} {settings} {settings.database}"
