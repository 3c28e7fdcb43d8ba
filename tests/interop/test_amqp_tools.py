"""Debian's ``amqp-tools``: the command-line clients of rabbitmq-c, the AMQP library in C.

Installed by apt-get where that is possible and needed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerUnderTest

from .suite_runs import Finished, need_programs, run

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

TOOLS = ["amqp-publish", "amqp-consume", "amqp-get", "amqp-declare-queue", "amqp-delete-queue"]
CAN_INSTALL = os.geteuid() == 0 and shutil.which("apt-get") is not None
if not CAN_INSTALL:
    need_programs(*TOOLS)

INSTALL_TIMEOUT_S = 120
RUN_TIMEOUT_S = 60
#: What amqp-get exits with when there is no message.
NOTHING_THERE = 2

Tool = Callable[..., Finished]


@pytest.fixture(scope="module")
def amqp_tools(tmp_path_factory: pytest.TempPathFactory) -> None:
    if all(map(shutil.which, TOOLS)):
        return
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "amqp-tools"]
    nowhere = tmp_path_factory.mktemp("apt")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (install, ["apt-get", "update", "-q"], install):
        run(command, cwd=nowhere, timeout_s=INSTALL_TIMEOUT_S, environment=quiet)
        if all(map(shutil.which, TOOLS)):
            return
    pytest.skip("amqp-tools is not installed, and apt-get cannot install it")


@pytest.fixture
def tool(amqp_tools: None, broker: BrokerUnderTest, tmp_path: Path) -> Tool:
    """``tool("get", "--queue=q")`` runs amqp-get to its end."""

    def run_tool(short_name: str, *arguments: str, stdin: str = "", url: str = "") -> Finished:
        command = [f"amqp-{short_name}", f"--url={url or broker.url}", *arguments]
        return run(command, cwd=tmp_path, timeout_s=RUN_TIMEOUT_S, stdin=stdin)

    return run_tool


@pytest.fixture
def queue(tool: Tool, name: str) -> Iterator[str]:
    """A queue that amqp-declare-queue made; amqp-delete-queue deletes it."""
    assert tool("declare-queue", f"--queue={name}") == Finished(0, f"{name}\n")
    yield name
    assert tool("delete-queue", f"--queue={name}").status == 0


def publish(tool: Tool, queue: str, *bodies: str) -> None:
    for body in bodies:
        assert tool("publish", f"--routing-key={queue}", f"--body={body}") == Finished(0, "")


def test_a_published_message_is_got_once(tool: Tool, queue: str) -> None:
    publish(tool, queue, "hello")
    assert tool("get", f"--queue={queue}") == Finished(0, "hello")
    assert tool("get", f"--queue={queue}") == Finished(NOTHING_THERE, "")


def test_messages_are_got_in_order(tool: Tool, queue: str) -> None:
    publish(tool, queue, "first", "second")
    assert tool("get", f"--queue={queue}").output == "first"
    assert tool("get", f"--queue={queue}").output == "second"


def test_an_empty_name_is_given_a_generated_one(tool: Tool) -> None:
    declared = tool("declare-queue", "--queue=")
    assert declared.status == 0
    assert declared.output.startswith("amq.gen-")
    assert tool("delete-queue", f"--queue={declared.output.strip()}").status == 0


def test_each_line_may_be_a_message_of_its_own(tool: Tool, queue: str) -> None:
    lines = "one\ntwo\nthree\n"
    published = tool("publish", f"--routing-key={queue}", "--line-buffered", stdin=lines)
    assert published == Finished(0, "")
    consumed = tool("consume", f"--queue={queue}", "--count=3", "cat")
    assert consumed == Finished(0, lines)


def test_a_large_body_from_standard_input_arrives_whole(tool: Tool, queue: str) -> None:
    body = "0123456789abcdef" * 65_536
    assert tool("publish", f"--routing-key={queue}", stdin=body) == Finished(0, "")
    consumed = tool("consume", f"--queue={queue}", "--count=1", "sha256sum")
    assert consumed.output.split()[0] == hashlib.sha256(body.encode()).hexdigest()


def test_properties_and_headers_are_accepted(tool: Tool, queue: str) -> None:
    published = tool(
        "publish",
        f"--routing-key={queue}",
        "--persistent",
        "--content-type=text/plain",
        "--content-encoding=utf-8",
        "--reply-to=somewhere",
        "--header=colour: red",
        "--body=dressed",
    )
    assert published == Finished(0, "")
    assert tool("get", f"--queue={queue}").output == "dressed"


def test_consumed_messages_are_acked_and_the_rest_stay(tool: Tool, queue: str) -> None:
    publish(tool, queue, "1", "2", "3")
    consumed = tool("consume", f"--queue={queue}", "--count=2", "--prefetch-count=1", "cat")
    assert consumed == Finished(0, "12")
    assert tool("get", f"--queue={queue}").output == "3"
    assert tool("get", f"--queue={queue}").status == NOTHING_THERE


def test_a_message_whose_command_fails_is_not_acked(tool: Tool, queue: str) -> None:
    publish(tool, queue, "stubborn")
    failing = tool("consume", f"--queue={queue}", "--count=1", "--prefetch-count=1", "false")
    assert failing.output == ""
    assert tool("get", f"--queue={queue}").output == "stubborn"


def test_consuming_without_acks_empties_the_queue(tool: Tool, queue: str) -> None:
    publish(tool, queue, "1", "2")
    consumed = tool("consume", f"--queue={queue}", "--no-ack", "--count=2", "cat")
    assert consumed == Finished(0, "12")
    assert tool("get", f"--queue={queue}").status == NOTHING_THERE


def test_deleting_a_queue_tells_how_many_messages_it_held(tool: Tool, name: str) -> None:
    assert tool("declare-queue", f"--queue={name}", "--durable").status == 0
    publish(tool, name, "1", "2")
    refused = tool("delete-queue", f"--queue={name}", "--if-empty")
    assert refused.status == 1
    assert "server channel error 406" in refused.output
    assert tool("delete-queue", f"--queue={name}") == Finished(0, "2\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["get", "--queue=no-such-queue"], "server channel error 404, message: NOT_FOUND"),
        (["consume", "--queue=no-such-queue", "cat"], "server channel error 404"),
        (["publish", "--exchange=no-such-exchange", "--body=x"], "server channel error 404"),
        (["declare-queue", "--queue=amq.reserved"], "server channel error 403"),
    ],
    ids=["get", "consume", "publish", "declare"],
)
def test_a_refusal_is_printed_with_its_code(tool: Tool, arguments: list[str], error: str) -> None:
    finished = tool(*arguments)
    assert finished.status == 1
    assert error in finished.output


def test_a_wrong_password_is_refused_with_403(tool: Tool, broker: BrokerUnderTest) -> None:
    finished = tool("declare-queue", "--queue=", url=broker.url_for(password="wrong"))
    assert finished.status == 1
    assert "server connection error 403, message: ACCESS_REFUSED" in finished.output


def test_an_unknown_virtual_host_is_refused_with_530(tool: Tool, broker: BrokerUnderTest) -> None:
    finished = tool("declare-queue", "--queue=", url=broker.url_for(vhost="nowhere"))
    assert finished.status == 1
    assert "server connection error 530, message: NOT_ALLOWED" in finished.output
