"""The Java program that generates the load: built by Maven, started once, given a job a line.

Used by ``scenarios``. One virtual machine serves a whole run, so that both brokers are measured
with the same compiled code. Invariant: after a job that was not answered to its end the program is
ended, so no answer is ever taken for that of a later job.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final
from urllib.parse import quote

from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.machine import PROJECT_ROOT
from benchmarks.macro.scenario import Stopwatch

MODULE: Final = PROJECT_ROOT / "benchmarks" / "jms" / "java"
BUILD: Final = PROJECT_ROOT / ".cache" / "bench-jms"
MAIN_CLASS: Final = "hareline.jms.bench.Main"
#: a heap that never grows, and a collector without threads of its own beside the two cores' work
JAVA_OPTIONS: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseSerialGC")
BUILD_TIMEOUT_S: Final = 600.0
#: longer than anything the program itself waits for, beside what the job asks it to measure
SILENCE_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0

_STAMP: Final = "built"
_TAIL_CHARACTERS: Final = 1500


@dataclass(frozen=True)
class Phase:
    """A number of messages and of seconds; `cores` is the processor time used meanwhile."""

    count: int
    elapsed_s: float
    cores: Mapping[str, float]

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.count / self.elapsed_s


def build(module: Path = MODULE, directory: Path = BUILD) -> None:
    """Compile the program and fetch its libraries, unless that was done for the same sources.

    :raises BenchmarkError: Java or Maven is missing, or does not succeed.
    """
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise BenchmarkError(f"{tool} is not installed, and the JMS clients need it")
    stamp = directory / _STAMP
    wanted = digest(module)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(directory, ignore_errors=True)
    command = ["mvn", "-q", "-B", "compile", "dependency:copy-dependencies"]
    command += ["-Dstyle.color=never", f"-Dbench.build={directory}"]
    try:
        done = subprocess.run(
            command,
            cwd=module,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"Maven was not ready within {BUILD_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise BenchmarkError(f"Maven could not build {module}:\n{done.stdout[-_TAIL_CHARACTERS:]}")
    stamp.write_text(wanted, encoding="utf-8")


def digest(module: Path) -> str:
    """What changes whenever one of the module's sources does."""
    total = hashlib.sha256()
    for file in sorted([module / "pom.xml", *(module / "src").rglob("*.java")]):
        total.update(f"{file.relative_to(module)}\0".encode())
        total.update(file.read_bytes())
    return total.hexdigest()


def java_command(directory: Path = BUILD) -> list[str]:
    """How the built program is started."""
    classpath = f"{directory / 'classes'}:{directory / 'lib'}/*"
    return ["java", *JAVA_OPTIONS, "-cp", classpath, MAIN_CLASS]


class LoadProgram:
    """The running program; it starts with its first job. Use it in a ``with`` statement.

    `command` is how it is started; `silence_s` how long it may say nothing beyond what it measures.
    """

    def __init__(
        self,
        command: Callable[[], Sequence[str]] = java_command,
        silence_s: float = SILENCE_TIMEOUT_S,
    ) -> None:
        self._command = command
        self._silence_s = silence_s
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._noise: IO[bytes] | None = None

    def __enter__(self) -> LoadProgram:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def run(
        self, job: Mapping[str, object], broker_pid: int | None, measure_s: float
    ) -> dict[str, Phase]:
        """Run one job to its end; its phases by name.

        `measure_s` is how long its longest silence is meant to be. The words of a job are those of
        the program's class Job.

        :raises BenchmarkError: the job failed, or the program is silent, gone or not understood.
        :raises OSError: the broker's process is gone.
        """
        try:
            self._tell(" ".join(f"{name}={quote(str(job[name]), safe='')}" for name in job))
            phases, failure = self._listen(broker_pid, self._silence_s + measure_s)
        except BaseException:
            self.close()
            raise
        if failure is not None:
            raise BenchmarkError(failure)
        return phases

    def close(self) -> None:
        """End the program; it may be called at any time, also twice."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._noise is not None:
            self._noise.close()
            self._noise = None

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        except OSError as error:
            raise BenchmarkError(f"the load program is gone:{self._last_noise()}") from error

    def _start(self) -> subprocess.Popen[str]:
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115, closed in `close`
        # a session of its own: Ctrl-C reaches it only through us, once a broker is not measured
        process = subprocess.Popen(
            list(self._command()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._noise,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._process = process
        self._answers = queue.SimpleQueue()
        assert process.stdout is not None
        reader = threading.Thread(
            target=_pass_on, args=(process.stdout, self._answers), daemon=True
        )
        reader.start()
        return process

    def _listen(
        self, broker_pid: int | None, limit_s: float
    ) -> tuple[dict[str, Phase], str | None]:
        """The phases up to the last answer of a job, and why it failed if so."""
        assert self._process is not None
        phases: dict[str, Phase] = {}
        watch: Stopwatch | None = None
        while True:
            line = self._answer(limit_s)
            match line.split():
                case ["begin", _]:
                    watch = Stopwatch(broker_pid, self._process.pid)
                case ["end", name, count, nanos] if watch is not None:
                    watch.stop()
                    phases[name] = Phase(int(count), int(nanos) / 1e9, watch.cores)
                    watch = None
                case ["done"]:
                    return phases, None
                case ["failed", *reason]:
                    return phases, " ".join(reason)
                case _:
                    raise BenchmarkError(f"the load program answered {line!r}")

    def _answer(self, limit_s: float) -> str:
        try:
            line = self._answers.get(timeout=limit_s)
        except queue.Empty:
            raise BenchmarkError(
                f"no answer of the load program within {limit_s:g} s:{self._last_noise()}"
            ) from None
        if line is None:
            raise BenchmarkError(f"the load program is gone:{self._last_noise()}")
        return line

    def _last_noise(self) -> str:
        """The end of its readable output."""
        if self._noise is None:
            return ""
        self._noise.seek(0)
        text = self._noise.read().decode("utf-8", errors="replace")
        return f" {text[-_TAIL_CHARACTERS:]}".rstrip()


def _pass_on(lines: IO[str], answers: queue.SimpleQueue[str | None]) -> None:
    """Put the program's lines into the queue, and None when it ends."""
    with lines:
        for line in lines:
            answers.put(line.rstrip("\n"))
    answers.put(None)
