"""Whatever a server does, a question ends with an answer or with AskingFailed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hareline.authorities.http_client import ANSWER_MAX_BYTES, AskingFailed, HttpClient
from tests.support.web_service import WebService, web_service


async def ask(service: WebService, path: str = "/x", timeout_s: float = 60) -> str:
    client = HttpClient(timeout_s)
    try:
        return await client.get(service.url + path)
    finally:
        await client.close()


async def test_the_text_of_an_answer_is_returned() -> None:
    with web_service(lambda asked: (201, f"{asked.method} {dict(asked.fields)}")) as service:
        client = HttpClient(60)
        assert await client.get(service.url, {"a": "1 &"}) == "GET {'a': '1 &'}"
        assert await client.post(service.url, {"a": "ü"}) == "POST {'a': 'ü'}"
        await client.close()


@pytest.mark.parametrize("status", [204, 301, 404, 500])
async def test_another_status_is_no_answer(status: int) -> None:
    with (
        web_service(lambda _: (status, "")) as service,
        pytest.raises(AskingFailed, match=f"answered with status {status}"),
    ):
        await ask(service)


async def test_an_answer_without_end_is_cut_off() -> None:
    text = "x" * (ANSWER_MAX_BYTES + 1)
    with (
        web_service(lambda _: (200, text)) as service,
        pytest.raises(AskingFailed, match="sent more than"),
    ):
        await ask(service)


async def test_a_compressed_answer_is_not_unpacked() -> None:
    """A few octets of it can be many gigabytes."""
    headers = {"Content-Encoding": "gzip"}
    with (
        web_service(lambda _: (200, "x"), headers) as service,
        pytest.raises(AskingFailed, match="sent a compressed answer"),
    ):
        await ask(service)


async def test_a_server_that_is_slow_is_given_up() -> None:
    with web_service(lambda _: (200, "late")) as service:
        service.gate.clear()
        with pytest.raises(AskingFailed, match=r"did not answer within 0\.05 s|cannot be asked"):
            await ask(service, timeout_s=0.05)


async def test_a_server_that_is_not_there_is_named() -> None:
    with web_service(lambda _: (200, "")) as service:
        pass
    with pytest.raises(AskingFailed, match="cannot be asked"):
        await ask(service)


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ValueError, match=r"ca\.pem has no certificate"):
        HttpClient(1, tmp_path / "ca.pem")
    with pytest.raises(FileNotFoundError):
        HttpClient(1, tmp_path / "none.pem")
