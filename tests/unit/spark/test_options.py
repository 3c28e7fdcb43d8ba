"""Options are checked, wrong ones named with what to do, and secrets shown nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hareline.spark.errors import InvalidOption
from hareline.spark.reading.options import read_options
from hareline.spark.shared.options import CONNECTION_OPTIONS, Connection, OptionReader

URL = {"url": "amqp://broker.example"}


def reader(environment: Any = None, **options: str) -> OptionReader:
    known = (*CONNECTION_OPTIONS, "maxRate", "mode", "isOn")
    return OptionReader(options, known, environment or {})


def connection(environment: Any = None, **options: str) -> Connection:
    return reader(environment, **options).connection()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("maxrat", "did you mean 'maxRate'"), ("qqq", "there are httpUrl, isOn, maxRate")],
)
def test_an_unknown_option_is_refused_by_name(name: str, hint: str) -> None:
    with pytest.raises(InvalidOption, match=f"no option '{name}'.*{hint}") as refused:
        reader(**{name: "s3cret"})
    assert "s3cret" not in str(refused.value)


def test_a_name_of_the_source_for_kafka_leads_to_ours() -> None:
    with pytest.raises(InvalidOption, match="did you mean 'maxRecordsPerTrigger'"):
        read_options({"maxOffsetsPerTrigger": "5"})
    with pytest.raises(InvalidOption, match="there are httpUrl"):
        reader(maxOffsetsPerTrigger="5")


def test_names_are_found_in_any_case() -> None:
    assert reader(MAXRATE="7").number("maxRate", 1, 1) == 7


@pytest.mark.parametrize("text", ["x", "0", "1.5", "-3"])
def test_a_number_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=f"maxRate must be .* from 1 on, not '{text}'"):
        reader(maxRate=text).number("maxRate", 5, 1)


def test_what_is_not_given_has_its_default() -> None:
    options = reader(mode="", isOn="TRUE")
    assert options.number("maxRate", 5, 1) == 5
    assert options.text("mode") is None
    assert options.choice("mode", ("fail", "restart")) == "fail"
    assert options.flag("isOn", False)
    assert options.flag("maxRate", True)


def test_flags_and_choices_name_what_they_may_be() -> None:
    with pytest.raises(InvalidOption, match="isOn must be true or false, not 'yes'"):
        reader(isOn="yes").flag("isOn", True)
    with pytest.raises(InvalidOption, match="mode must be fail or restart, not 'no'"):
        reader(mode="no").choice("mode", ("fail", "restart"))


def test_a_url_alone_is_guest_on_the_default_ports() -> None:
    assert connection(**URL) == Connection(
        "broker.example", 5672, False, "/", "http://broker.example:15672", "guest", "guest", None
    )


@pytest.mark.parametrize(
    ("url", "port", "vhost", "http_url"),
    [
        ("amqp://h:7/", 7, "/", "http://h:15672"),
        ("amqp://h/%2Fshop", 5672, "/shop", "http://h:15672"),
        ("amqps://h/shop", 5671, "shop", "https://h:15672"),
        ("amqp://[::1]:5673", 5673, "/", "http://[::1]:15672"),
    ],
)
def test_the_parts_of_a_url(url: str, port: int, vhost: str, http_url: str) -> None:
    made = connection(url=url)
    assert (made.port, made.vhost, made.http_url) == (port, vhost, http_url)
    assert made.is_tls is url.startswith("amqps")


def test_the_management_url_can_be_given() -> None:
    made = connection(**URL, httpUrl="https://proxy.example/broker/")
    assert made.http_url == "https://proxy.example/broker"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "url is missing.*HARELINE_URL"),
        ({"url": "http://h"}, "url must be amqp://HOST:PORT or amqps://HOST:PORT"),
        ({"url": "amqp://h:nine"}, "host or port cannot be read"),
        ({"url": "amqp://"}, "url must be amqp://"),
        ({"url": "amqp://h?heartbeat=3"}, "url must be amqp://"),
        ({"url": "amqp://h/a/b"}, "percent-encoded"),
        ({"url": "amqp://u:s3cret@h"}, "has a password in it.*passwordFile"),
        ({**URL, "httpUrl": "http://u:s3cret@h"}, "httpUrl has a password in it"),
        ({**URL, "httpUrl": "http://u@h"}, "httpUrl has a user in it"),
        ({**URL, "httpUrl": "h:15672"}, "httpUrl must be http://"),
        ({**URL, "user": "joe"}, "no password for user 'joe'.*HARELINE_PASSWORD"),
        ({**URL, "password": "s3cret", "token": "s3cret"}, "password and token contradict"),
        ({**URL, "token": "s3cret\n"}, "token must be printable ASCII"),
        ({**URL, "passwordFile": "/does/not/exist"}, "/does/not/exist: No such file"),
    ],
)
def test_where_the_broker_is_must_be_clear(options: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidOption, match=why) as refused:
        connection(**options)
    assert "s3cret" not in str(refused.value)


def test_the_environment_stands_in_for_options() -> None:
    environment = {"HARELINE_URL": "amqp://e", "HARELINE_USER": "eve", "HARELINE_PASSWORD": "p"}
    made = connection(environment)
    assert (made.host, made.user, made.password) == ("e", "eve", "p")
    made = connection(environment, url="amqp://o", user="joe", token="t")
    assert (made.host, made.user, made.password, made.token) == ("o", "joe", "", "t")
    with pytest.raises(InvalidOption, match="HARELINE_PASSWORD and HARELINE_TOKEN contradict"):
        connection({**environment, "HARELINE_TOKEN": "t"})


def test_a_user_may_stand_in_the_url() -> None:
    assert connection(url="amqp://jo%40e@h", password="p").user == "jo@e"


def test_a_password_comes_from_the_first_line_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret\nmore\n")
    assert connection(**URL, user="joe", passwordFile=str(file)).password == "s3cret"
    file.write_bytes(b"\n")
    with pytest.raises(InvalidOption, match="its first line is empty"):
        connection(**URL, passwordFile=str(file))
    file.write_bytes(b"\xff")
    with pytest.raises(InvalidOption, match="is not UTF-8"):
        connection(**URL, passwordFile=str(file))


def test_no_secret_is_in_a_repr() -> None:
    shown = repr(connection(**URL, user="joe", password="s3cret"))
    assert "joe" in shown
    assert "s3cret" not in shown + repr(connection(**URL, token="s3cret"))
