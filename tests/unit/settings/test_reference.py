"""The sample changes nothing, shows every option, and its defaults are the real ones."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hareline.settings import Settings, leaf_options, load_settings, variable_of
from hareline.settings.reference import option_help, sample, tables, with_tables

ROOT = Path(__file__).resolve().parents[3]


def _uncommented(text: str) -> str:
    """The sample with every option line live; explanations have a space after the #."""
    return re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE)


def _loaded(directory: Path, text: str) -> Settings:
    path = directory / "hareline.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, {})


def test_the_sample_changes_nothing(tmp_path: Path) -> None:
    assert _loaded(tmp_path, sample()) == Settings().read_from(tmp_path / "hareline.toml")


def test_the_sample_shows_the_real_defaults(tmp_path: Path) -> None:
    defaults = Settings().read_from(tmp_path / "hareline.toml")
    assert _loaded(tmp_path, _uncommented(sample())) == defaults


def test_the_sample_sets_every_option_once_its_lines_are_live() -> None:
    tree = tomllib.loads(_uncommented(sample()))
    for name, _ in leaf_options():
        section, _, key = name.rpartition(".")
        assert key in (tree[section] if section else tree), name


def test_the_sample_names_every_variable_and_the_tables_every_option() -> None:
    for name, field in leaf_options():
        assert variable_of(name) in sample()
        assert f"`{name.rpartition('.')[2]}`" in tables() or f"[[{name}]]" in tables()
        for text in (sample(), tables()):
            assert field.description is not None
            assert field.description.split(".", maxsplit=1)[0].split("  ")[0][:40] in text


def test_the_sample_fits_a_hundred_columns() -> None:
    assert max(map(len, sample().splitlines())) <= 100


def test_the_help_of_a_flag_is_the_description_and_the_default() -> None:
    assert option_help("listener.port").startswith("TCP port for AMQP.")
    assert option_help("listener.port").endswith("Default: 5672.")


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="not found"):
        with_tables("# Configuration\n")


def test_only_the_text_between_the_markers_is_replaced() -> None:
    page = f"before\n{tables()}\nafter\n"
    spoilt = page.replace("5672", "1234")
    assert with_tables(spoilt) == page


def test_the_examples_of_the_documentation_load(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert examples
    for example in examples:
        assert _loaded(tmp_path, example) != Settings()


def test_the_environment_of_the_container_image_loads() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    environ = dict(re.findall(r"\b(HARELINE_[A-Z_]+)=(\S*)", dockerfile))
    assert "HARELINE_DATA_DIR" in environ
    settings = load_settings(None, environ)
    assert settings.listener.bind == settings.management.bind == "0.0.0.0"
    assert settings.auth.loopback_users == ()
    assert f"VOLUME {settings.data_dir}" in dockerfile
    ports = f"{settings.listener.port} {settings.management.port}"
    assert f"EXPOSE {ports}" in dockerfile


def test_the_systemd_unit_sets_nothing_that_the_file_could_set() -> None:
    unit = (ROOT / "config" / "hareline.service").read_text(encoding="utf-8")
    assert "HARELINE_" not in unit
    (command,) = re.findall(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)
    assert re.fullmatch(r"serve --config \S+", command)
    assert "StateDirectory=hareline" in unit  # which is data_dir where the file has none
