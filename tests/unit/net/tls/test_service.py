"""Renewed files, files that cannot be used, and certificates that are near their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from hareline import events
from hareline.errors import ListenError
from hareline.net.tls.contexts import CertificateFiles, TlsOptions
from hareline.net.tls.service import TlsService
from hareline.net.tls.stream import TlsStream
from tests.support.authority import Files
from tests.support.waiting import until

DAY_MS = 86_400_000


class Stand:
    def __init__(self, files: Files, **options: object) -> None:
        self.files = files
        self.reports: list[tuple[events.Event, dict[str, object]]] = []
        self.now_ms = 0
        table = CertificateFiles("tls", *files.pair("server"))
        self.options = TlsOptions((table,), str(files.ca))
        self.service = TlsService(
            self.options,
            lambda event, **fields: self.reports.append((event, fields)),
            lambda: 10.0,
            check_interval_s=0.01,
            warning_days=30,
            now_ms=lambda: self.now_ms,
        )
        self.now_ms = self.service.certificates[0].facts.not_after_ms - 40 * DAY_MS

    def codes(self) -> list[str]:
        found = [event.code for event, _ in self.reports]
        self.reports.clear()
        return found

    @property
    def serial(self) -> str:
        return self.service.certificates[0].facts.serial


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    files = Files(tmp_path)
    files.server()
    return Stand(files)


async def test_files_that_change_are_used_from_then_on(stand: Stand) -> None:
    service, serial = stand.service, stand.serial
    service.start()
    assert stand.codes() == ["TLS-1001"]
    before = service.for_amqp(lambda: None)._context()  # type: ignore[arg-type,return-value]
    stand.files.server("localhost", "renewed.example", days=99)
    await until(lambda: stand.serial != serial, "the new certificate")
    assert stand.reports[-1][0] is events.TLS_LOADED
    assert stand.reports[-1][1]["names"] == "localhost, renewed.example"
    stream = service.for_http(lambda: None)  # type: ignore[arg-type,return-value]
    assert isinstance(stream, TlsStream)
    assert service.for_amqp(lambda: None)._context() is not before  # type: ignore[arg-type,return-value]
    service.stop()


def test_files_that_do_not_fit_together_are_not_used(stand: Stand) -> None:
    serial = stand.serial
    key = stand.files.pair("server")[1]
    kept = Path(key).read_bytes()
    stand.files.server()
    new_key = Path(key).read_bytes()
    Path(key).write_bytes(kept)  # the certificate is new, its key not yet
    stand.service.check()
    stand.service.check()
    ((event, fields),) = stand.reports
    assert event is events.TLS_NOT_RELOADED
    assert str(fields["problem"]).startswith(f"tls.key: {key}: the key does not belong to")
    assert stand.serial == serial
    Path(key).write_bytes(new_key)
    stand.reports.clear()
    stand.service.check()
    assert stand.codes() == ["TLS-1001"]
    assert stand.serial != serial


def test_a_file_that_is_gone_is_reported_once(stand: Stand) -> None:
    serial = stand.serial
    Path(stand.files.pair("server")[1]).unlink()
    for _ in range(3):
        stand.service.check()
    assert stand.codes() == ["TLS-1002"]
    assert stand.serial == serial


def test_a_reload_reads_the_files_at_once(stand: Stand) -> None:
    serial = stand.serial
    stand.files.server(stem="other")
    table = CertificateFiles("tls", *stand.files.pair("other"))
    stand.service.reload(TlsOptions((table,)))
    assert stand.codes() == ["TLS-1001"]
    assert stand.serial != serial
    assert len(stand.service.certificates) == 1
    stand.service.reload(TlsOptions((table._replace(key="absent.key"),)))
    stand.service.reload(TlsOptions((table._replace(key="absent.key"),)))
    assert stand.codes() == ["TLS-1002", "TLS-1002"], "each SIGHUP is answered"
    stand.service.reload(TlsOptions((table,)))
    stand.service.check()
    assert stand.codes() == ["TLS-1001"]


def test_a_certificate_near_its_end_is_named_once_a_day(stand: Stand) -> None:
    stand.service.warn()
    assert stand.codes() == []
    stand.now_ms += 15 * DAY_MS
    stand.service.check()
    stand.now_ms += 1000
    stand.service.check()
    ((event, fields),) = stand.reports
    assert event is events.TLS_CERTIFICATE_EXPIRES
    assert (fields["days"], Path(str(fields["file"])).name) == (25, "server.pem")
    stand.reports.clear()
    stand.now_ms += DAY_MS
    stand.service.check()
    assert stand.codes() == ["TLS-1003"]
    stand.service.warning_days = 3
    stand.now_ms += DAY_MS
    stand.service.check()
    assert stand.codes() == []


def test_a_certificate_that_has_expired_is_an_error_of_each_day(stand: Stand) -> None:
    stand.now_ms += 41 * DAY_MS
    stand.service.check()
    assert stand.codes() == ["TLS-1004"]


def test_an_authority_near_its_end_is_named_too(stand: Stand) -> None:
    authority = stand.service.certificates[1]
    assert authority.is_authority
    stand.now_ms = authority.facts.not_after_ms - DAY_MS // 2
    stand.service.check()
    assert [event.code for event, _ in stand.reports] == ["TLS-1004", "TLS-1003"]
    assert stand.reports[1][1]["days"] == 0


def test_a_broker_without_usable_files_does_not_start(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write("server", files.authority.own)
    Path(files.pair("server")[1]).unlink()
    with pytest.raises(ListenError, match=r"tls\.key"):
        Stand(files)
