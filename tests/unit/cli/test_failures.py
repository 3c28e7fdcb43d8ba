"""Errors become one sentence and a status, whatever they are."""

from __future__ import annotations

import errno

import pytest
from click.exceptions import Exit

from hareline.cli.failures import CommandFailed, ExitStatus, errors_as_sentences
from hareline.errors import ConfigurationError


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (CommandFailed("no such queue", ExitStatus.NOT_FOUND), 4, "hareline: no such queue\n"),
        (CommandFailed("refused"), 1, "hareline: refused\n"),
        (ConfigurationError(["a", "b"]), 2, "hareline: a\nhareline: b\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"),
            1,
            "hareline: /x: No such file or directory\n",
        ),
        (OSError("out of luck"), 1, "hareline: out of luck\n"),
    ],
)
def test_an_error_is_a_sentence_and_a_status(
    error: BaseException, status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exit) as ended, errors_as_sentences():
        raise error
    assert ended.value.exit_code == status
    assert capsys.readouterr().err == sentence


def test_a_fault_of_a_command_names_its_place_and_is_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Exit), errors_as_sentences():
        raise LookupError("oops")
    said = capsys.readouterr().err
    assert "unexpected LookupError: oops" in said
    assert "hareline.cli.failures:" in said
    assert "Traceback" not in said


def test_what_click_means_to_end_with_passes() -> None:
    with pytest.raises(Exit) as ended, errors_as_sentences():
        raise Exit(7)
    assert ended.value.exit_code == 7


def test_every_status_has_a_meaning() -> None:
    assert all(status.meaning for status in ExitStatus)
    assert [int(status) for status in ExitStatus] == [0, 1, 2, 3, 4, 5, 130]
