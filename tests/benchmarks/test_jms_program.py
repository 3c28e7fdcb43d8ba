"""The Java program: what is asked of it, what its answers mean, and when it is built again.

They talk to a stand-in in Python; ``tests/interop/java`` has the tests of the real program.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.jms import program
from benchmarks.jms.program import LoadProgram, Phase, build, digest
from benchmarks.macro.errors import BenchmarkError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

#: Answers each job by what its word ``say`` asks for.
STAND_IN = """
import sys, time, urllib.parse
for line in sys.stdin:
    words = dict(word.split("=", 1) for word in line.split())
    say = urllib.parse.unquote(words["say"])
    if say == "nothing":
        time.sleep(60)
    if say == "goodbye":
        print("an unhappy end", file=sys.stderr)
        break
    print(say, flush=True)
"""

PHASES = "begin send\nend send 3000 1500000000\nbegin receive\nend receive 10 1000000\ndone"


def stand_in(silence_s: float = 30.0) -> LoadProgram:
    return LoadProgram(lambda: [sys.executable, "-c", STAND_IN], silence_s)


class TestAnswers:
    def test_phases_have_their_count_and_time(self) -> None:
        with stand_in() as load:
            phases = load.run({"say": PHASES}, None, 0.0)
        assert list(phases) == ["send", "receive"]
        assert (phases["send"].count, phases["send"].elapsed_s) == (3000, 1.5)
        assert phases["send"].rate == 2000.0
        assert phases["send"].cores.keys() == {"generator"}

    def test_the_brokers_share_of_the_processor_is_told_where_it_is_known(self) -> None:
        with stand_in() as load:
            phases = load.run({"say": PHASES}, os.getpid(), 0.0)
        assert phases["receive"].cores.keys() == {"generator", "broker", "others"}

    def test_a_failed_job_is_told_and_the_next_one_runs(self) -> None:
        with stand_in() as load:
            with pytest.raises(BenchmarkError, match="message 7 came where 6 was due"):
                load.run({"say": "begin send\nfailed message 7 came where 6 was due"}, None, 0.0)
            assert load.run({"say": "done"}, None, 0.0) == {}

    @pytest.mark.parametrize("answer", ["what?", "end send 1 1", "begin a b"])
    def test_an_answer_that_means_nothing_is_told(self, answer: str) -> None:
        with stand_in() as load, pytest.raises(BenchmarkError, match=f"answered '{answer[:3]}"):
            load.run({"say": answer}, None, 0.0)

    def test_a_program_that_ends_is_told_with_its_last_words_and_started_again(self) -> None:
        with stand_in() as load:
            with pytest.raises(BenchmarkError, match="is gone: an unhappy end"):
                load.run({"say": "goodbye"}, None, 0.0)
            assert load.run({"say": "done"}, None, 0.0) == {}

    def test_a_silent_program_is_ended_so_that_no_late_answer_is_believed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(program, "STOP_TIMEOUT_S", 0.05)
        with stand_in(silence_s=0.05) as load:
            with pytest.raises(BenchmarkError, match=r"no answer .* within 0\.05 s"):
                load.run({"say": "nothing"}, None, 0.0)
            with pytest.raises(BenchmarkError, match=r"within 0\.05 s"):
                load.run({"say": "nothing"}, None, 0.0)

    def test_values_are_encoded_so_that_a_blank_ends_no_word(self) -> None:
        with stand_in() as load, pytest.raises(BenchmarkError, match="a b=c%"):
            load.run({"say": "failed a b=c%"}, None, 0.0)

    def test_a_rate_is_messages_by_seconds(self) -> None:
        assert Phase(50, 0.25, {}).rate == 200.0


class TestBuild:
    def module(self, tmp_path: Path) -> Path:
        sources = tmp_path / "src" / "main"
        sources.mkdir(parents=True)
        (tmp_path / "pom.xml").write_text("<project/>")
        (sources / "A.java").write_text("class A {}")
        return tmp_path

    def test_the_digest_changes_with_any_source(self, tmp_path: Path) -> None:
        module = self.module(tmp_path)
        seen = {digest(module)}
        (module / "src" / "main" / "A.java").write_text("class A { }")
        seen.add(digest(module))
        (module / "src" / "main" / "A.java").rename(module / "src" / "main" / "B.java")
        seen.add(digest(module))
        (module / "pom.xml").write_text("<project>1</project>")
        seen.add(digest(module))
        assert len(seen) == 4
        (module / "README.md").write_text("not a source")
        assert digest(module) in seen

    def test_what_is_missing_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(BenchmarkError, match="java is not installed"):
            build(self.module(tmp_path), tmp_path / "build")

    def test_maven_runs_once_for_the_same_sources_and_its_failure_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tools, built = tmp_path / "bin", tmp_path / "build"
        tools.mkdir()
        for name in ("java", "javac"):
            (tools / name).symlink_to("/bin/true")
        maven = tools / "mvn"
        maven.write_text(f'#!/bin/sh\n/bin/mkdir -p "{built}"\necho ran >> "{tmp_path}/runs"\n')
        maven.chmod(0o755)
        monkeypatch.setenv("PATH", str(tools))
        module = self.module(tmp_path / "module")
        build(module, built)
        build(module, built)
        assert (tmp_path / "runs").read_text() == "ran\n"
        (module / "pom.xml").write_text("<other/>")
        maven.write_text("#!/bin/sh\necho BUILD FAILURE; exit 1\n")
        with pytest.raises(BenchmarkError, match="BUILD FAILURE"):
            build(module, built)
