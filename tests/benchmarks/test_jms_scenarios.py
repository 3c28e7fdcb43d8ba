"""Which JMS loads there are, and what becomes of the phases that the program reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.jms import program as program_module
from benchmarks.jms.__main__ import PROGRAM, main
from benchmarks.jms.program import LoadProgram, Phase
from benchmarks.jms.scenarios import (
    QPID_SECTION,
    RABBITMQ_SECTION,
    Load,
    outcome_of,
    scenarios,
)
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.report import BEGIN

EVERY = scenarios(LoadProgram())


def phase(count: int, elapsed_s: float, broker: float | None = 0.5) -> Phase:
    cores = {"generator": 1.0} if broker is None else {"generator": 1.0, "broker": broker}
    return Phase(count, elapsed_s, cores)


class TestScenarios:
    def test_names_are_unique_and_carry_their_parameters(self) -> None:
        names = [scenario.name for scenario in EVERY]
        assert len(set(names)) == len(names)
        assert {
            "rabbitmq_auto_listener_nonpersistent_1KiB",
            "rabbitmq_auto_receive_persistent_1KiB",
            "rabbitmq_auto_listener_nonpersistent_text_1KiB",
            "qpid_tx_10_listener_persistent_1KiB",
        } <= set(names)

    @pytest.mark.parametrize("mode", ["persistent", "nonpersistent"])
    def test_the_client_of_both_brokers_has_each_mode_of_the_issue(self, mode: str) -> None:
        names = {scenario.name for scenario in EVERY if scenario.section == RABBITMQ_SECTION}
        kinds = ("auto_listener", "auto_receive", *(f"tx_{n}_listener" for n in (1, 10, 100)))
        assert {f"rabbitmq_{kind}_{mode}_1KiB" for kind in kinds} <= names

    def test_only_qpids_client_keeps_to_the_first_broker(self) -> None:
        assert {s.section for s in EVERY if s.is_for_subject_only} == {QPID_SECTION}
        assert {s.section for s in EVERY if not s.is_for_subject_only} == {RABBITMQ_SECTION}

    def test_each_has_the_same_numbers_end_to_end_first(self) -> None:
        for scenario in EVERY:
            names = [metric.name for metric in scenario.metrics]
            assert names == ["end to end", "send", "receive"]

    def test_a_loads_words_are_those_of_its_name(self) -> None:
        assert Load(batch=10, is_persistent=True).words() == {
            "acknowledge": "transacted",
            "batch": 10,
            "take": "listener",
            "mode": "persistent",
            "body": "bytes",
        }
        assert Load(is_listening=False, is_text=True).words() == {
            "acknowledge": "auto",
            "batch": 1,
            "take": "receive",
            "mode": "nonpersistent",
            "body": "text",
        }


class TestOutcome:
    def test_rates_and_the_brokers_time_per_message_come_from_the_phases(self) -> None:
        found = outcome_of(
            {"through": phase(3000, 1.5), "send": phase(500, 0.5), "receive": phase(100, 1.0)}
        )
        assert found.values == {"end to end": 2000.0, "send": 1000.0, "receive": 100.0}
        assert found.details == {
            "broker us per message, end to end": pytest.approx(250.0),
            "broker us per message, send": pytest.approx(500.0),
            "broker us per message, receive": pytest.approx(5000.0),
        }
        assert found.cores == {"generator": 1.0, "broker": 0.5}

    def test_without_the_brokers_process_there_are_rates_alone(self) -> None:
        unknown = phase(10, 1.0, broker=None)
        found = outcome_of({"through": unknown, "send": unknown, "receive": unknown})
        assert found.details == {}
        assert found.values["receive"] == 10.0

    def test_a_phase_that_is_missing_is_named(self) -> None:
        with pytest.raises(BenchmarkError, match="no numbers for send, receive"):
            outcome_of({"through": phase(1, 1.0)})


class TestCommandLine:
    def test_scenarios_are_listed_without_java(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "")
        assert main(["--list", "--scenario", "qpid_tx", "rabbitmq_auto_receive*"]) == 0
        listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
        assert listed == [
            "qpid_tx_1_listener_persistent_1KiB",
            "qpid_tx_10_listener_persistent_1KiB",
            "qpid_tx_100_listener_persistent_1KiB",
            "rabbitmq_auto_receive_nonpersistent_1KiB",
            "rabbitmq_auto_receive_persistent_1KiB",
        ]

    def test_what_the_clients_need_is_asked_for_before_a_broker_is_started(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        # a name that no resolver knows: a broker that is asked for would be told as unreachable
        assert main(["--url", "amqp://nowhere.invalid/"]) == 1
        captured = capsys.readouterr()
        assert captured.err == "java is not installed, and the JMS clients need it\n"
        assert captured.out == ""

    def test_a_wrong_name_is_refused_with_those_there_are(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as stopped:
            main(["--scenario", "nothing_like_it"])
        assert stopped.value.code == 2
        assert "there are rabbitmq_auto_listener" in capsys.readouterr().err

    def test_the_page_has_room_for_the_tables_and_names_the_pinned_clients(self) -> None:
        text = PROGRAM.page.read_text(encoding="utf-8")
        assert text.count(BEGIN) == 1
        pom = (program_module.MODULE / "pom.xml").read_text(encoding="utf-8")
        for artifact, version in (("rabbitmq-jms", "3.7.0"), ("qpid-client", "6.4.0")):
            assert f"<artifactId>{artifact}</artifactId>\n      <version>{version}<" in pom
            assert f"`{artifact}` {version}" in text
