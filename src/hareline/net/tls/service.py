"""TLS of one broker: the certificates shown now, renewed files, and warnings before expiry.

Files are looked at every few seconds, since other programs renew certificates; SIGHUP has them read
at once. Contexts are replaced as a whole, and only by ones made without a problem: connections that
exist keep their session.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Final

from hareline import events
from hareline.errors import ListenError
from hareline.events import Report
from hareline.net.tls.contexts import ReadCertificate, TlsContexts, TlsOptions, load_contexts
from hareline.net.tls.handshakes import Handshakes
from hareline.net.tls.stream import TlsStream

_DAY_MS: Final = 86_400_000

#: A file from outside: time of change, size and number; None: it is not there.
_Look = tuple[int, int, int] | None


def _now_ms() -> int:
    return int(time.time() * 1000)


class TlsService:
    """``handshakes``: computes and counts them.

    ``timeout_s``: how long a handshake may take. ``check_interval_s`` and ``warning_days`` may be
    changed while it runs. Raises ListenError if a file cannot be used.
    """

    def __init__(
        self,
        options: TlsOptions,
        report: Report,
        timeout_s: Callable[[], float],
        *,
        check_interval_s: float,
        warning_days: int,
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self._options = options
        self._report = report
        self._now_ms = now_ms
        self.check_interval_s = check_interval_s
        self.warning_days = warning_days
        self._looks = _looks(options)
        self._contexts = load_contexts(options)
        self._problem = ""  # that the log has already, while the files are as they are
        self._warned_day = -1
        self._timer: asyncio.TimerHandle | None = None
        self.handshakes = Handshakes(report, timeout_s)

    @property
    def certificates(self) -> Sequence[ReadCertificate]:
        """The broker's own certificates, and the authorities of its clients."""
        return self._contexts.certificates

    def start(self) -> None:
        """Look at the files at intervals, and at the calendar."""
        self._report_loaded()
        self.warn()
        self._arm()

    def stop(self) -> None:
        """Look no more, and begin no handshake."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.handshakes.stop()

    def for_amqp(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> TlsStream:
        """Protocol that speaks TLS on an accepted socket of a port for AMQP."""
        return TlsStream(self.handshakes, self._amqp_context, make_protocol)

    def for_http(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> TlsStream:
        """Protocol that speaks TLS on an accepted socket of a port for HTTP."""
        return TlsStream(self.handshakes, self._http_context, make_protocol)

    def _amqp_context(self) -> ssl.SSLContext:
        return self._contexts.amqp

    def _http_context(self) -> ssl.SSLContext:
        return self._contexts.http

    # ------------------------------------------------------------------- renewal

    def reload(self, options: TlsOptions) -> None:
        """Read all files again, and use them from now on if there is nothing wrong with them."""
        self._looks = _looks(options)
        self._options = options
        self._problem = ""
        self._take(options)

    def check(self) -> None:
        """Read the files again if one of them has changed."""
        looks = _looks(self._options)
        if looks != self._looks:
            self._looks = looks
            self._take(self._options)
        self.warn()

    def warn(self) -> None:
        """Name each certificate that is near its end, once a day."""
        now_ms = self._now_ms()
        if now_ms // _DAY_MS == self._warned_day:
            return
        self._warned_day = now_ms // _DAY_MS
        for each in self.certificates:
            left_ms = each.facts.not_after_ms - now_ms
            file, subject = each.file, each.facts.subject
            if left_ms <= 0:
                self._report(events.TLS_CERTIFICATE_EXPIRED, file=file, subject=subject)
            elif left_ms < self.warning_days * _DAY_MS:
                days = left_ms // _DAY_MS
                self._report(events.TLS_CERTIFICATE_EXPIRES, file=file, subject=subject, days=days)

    def _take(self, options: TlsOptions) -> None:
        try:
            contexts: TlsContexts = load_contexts(options)
        except ListenError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                for option, problem in error.problems:
                    self._report(events.TLS_NOT_RELOADED, problem=f"{option}: {problem}")
            return
        self._problem = ""
        self._contexts = contexts
        self._warned_day = -1
        self._report_loaded()

    def _report_loaded(self) -> None:
        for each in self.certificates:
            if not each.is_authority:
                self._report(
                    events.TLS_LOADED,
                    file=each.file,
                    subject=each.facts.subject,
                    names=", ".join(each.facts.dns_names + each.facts.addresses),
                    expires=time.strftime("%Y-%m-%d", time.gmtime(each.facts.not_after_ms / 1000)),
                )

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.check_interval_s, self._tick)

    def _tick(self) -> None:
        try:
            self.check()
        finally:
            self._arm()


def _looks(options: TlsOptions) -> list[_Look]:
    """Outside view of all files now."""
    looks: list[_Look] = []
    for file in options.files():
        try:
            found = file.stat()
        except OSError:
            looks.append(None)
        else:
            looks.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return looks
