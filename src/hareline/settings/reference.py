"""Texts about the options: the sample file, the tables of the documentation, the help of a flag.

All comes from the declarations of the options; ``make reference`` writes config/hareline.toml and
docs/configuration.md. The sample is a valid file that changes nothing, with and without the ``#``
before its options.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from hareline.settings.options import Settings, leaf_options
from hareline.settings.section import Section, reload_of
from hareline.settings.sources import variable_of
from hareline.settings.values import OCTETS_FORMS, InWords

TABLES_BEGIN: Final = "<!-- options: written by `make reference` -->"
TABLES_END: Final = "<!-- end of options -->"

_WIDTH: Final = 98
_RELOAD_WORDS: Final = {"live": "SIGHUP applies it", "restart": "needs a restart"}
_TYPE_WORDS: Final[dict[object, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    SecretStr: "text",
}

_SAMPLE_HEAD: Final = """\
# Settings of Hareline. This file shows every option with its default and changes nothing as it is:
# take the "#" away before an option and give it another value. "# " begins an explanation.
#
# An environment variable outweighs this file, and a command line flag outweighs both.
# `hareline check-config FILE` says what is wrong with a file. `hareline config-sample` prints
# this one.
"""


def option_help(name: str) -> str:
    """Help of a flag: meaning and default of the option with this dotted name."""
    field = dict(leaf_options())[name]
    values = _values(field)
    one_of = f" {values[0].upper()}{values[1:]}." if values.startswith("one of ") else ""
    return f"{field.description}{one_of} Default: {field.default}."


def sample() -> str:
    """The annotated sample: valid TOML in which every option is commented out."""
    lines = [_SAMPLE_HEAD]
    defaults = Settings()
    for name, field in Settings.model_fields.items():
        section = _section_of(field)
        if section is None:
            lines += _option_lines(name, variable_of(name), field)
        elif get_origin(field.annotation) is tuple:
            lines += _comment(field.description or "", _variable_note(name, field))
            shown = getattr(defaults, name)
            for table in shown:
                lines += [*_table_lines(name, table), ""]
            if not shown:  # it stands before the first table, so that it is valid TOML
                lines += [f"#{name} = []", ""]
        else:
            lines += [*_comment(_summary(section)), f"[{name}]", ""]
            for key, inner in section.model_fields.items():
                lines += _option_lines(key, variable_of(f"{name}.{key}"), inner)
    return "\n".join(lines).rstrip("\n") + "\n"


def tables() -> str:
    """The Markdown tables of docs/configuration.md, markers included."""
    lines = [TABLES_BEGIN, "", "## Top level", ""]
    lines += _markdown_table(
        {n: f for n, f in Settings.model_fields.items() if _section_of(f) is None}
    )
    shown: set[type[Section]] = set()
    for name, field in Settings.model_fields.items():
        section = _section_of(field)
        if section is None:
            continue
        if get_origin(field.annotation) is tuple:
            lines += ["", f"## [[{name}]]", "", field.description or "", ""]
            lines += _nested_tables(section, shown)
        else:
            lines += ["", f"## [{name}]", "", _summary(section), ""]
            lines += _markdown_table(section.model_fields)
    return "\n".join([*lines, "", TABLES_END])


def with_tables(page: str) -> str:
    """The page with the text between the markers replaced; raises ValueError without markers."""
    begin, end = page.index(TABLES_BEGIN), page.index(TABLES_END) + len(TABLES_END)
    return page[:begin] + tables() + page[end:]


def _option_lines(key: str, variable: str, field: FieldInfo) -> list[str]:
    note = f"{_values(field)}. {variable}; {_RELOAD_WORDS[reload_of(field)]}."
    lines = _comment(field.description or "", note[0].upper() + note[1:])
    return [*lines, f"#{key} = {_toml(field.default)}", ""]


def _table_lines(name: str, table: Section) -> Iterator[str]:
    """One entry of a list of tables with all its keys, commented out; nested lists come last."""
    yield f"#[[{name}]]"
    fields = type(table).model_fields
    for key, field in fields.items():
        value = getattr(table, key)
        if _section_of(field) is not None:
            continue
        yield from _comment(f"{field.description} ({_values(field)})")
        # An option without a value has no spelling in TOML: it is shown as part of the comment.
        yield f"#{key} = {_toml(value)}" if value is not None else f'# {key} = "..."'
    for key, field in fields.items():
        if _section_of(field) is not None:
            yield from _comment(field.description or "")
            for inner in getattr(table, key):
                yield from _table_lines(f"{name}.{key}", inner)


def _variable_note(name: str, field: FieldInfo) -> str:
    return f"{variable_of(name)} as a JSON array; {_RELOAD_WORDS[reload_of(field)]}."


def _comment(*paragraphs: str) -> list[str]:
    return ["# " + line for text in paragraphs for line in textwrap.wrap(text, _WIDTH)]


def _markdown_table(fields: dict[str, FieldInfo]) -> list[str]:
    lines = ["| Option | Default | Values | Changed by | Meaning |", "|---|---|---|---|---|"]
    for key, field in fields.items():
        change = "SIGHUP" if reload_of(field) == "live" else "restart"
        cells = [
            f"`{key}`",
            f"`{_toml(field.default)}`",
            _values_in_short(field),
            change,
            field.description or "",
        ]
        lines.append(_row(cells))
    return lines


def _nested_tables(section: type[Section], shown: set[type[Section]]) -> Iterator[str]:
    """The keys of a table, and behind them those of its lists of tables, each kind once."""
    yield from ("| Key | Default | Values | Meaning |", "|---|---|---|---|")
    for key, field in section.model_fields.items():
        if field.is_required():
            default = "required"
        else:
            default = "none" if field.default is None else f"`{_toml(field.default)}`"
        yield _row([f"`{key}`", default, _values_in_short(field), field.description or ""])
    for key, field in section.model_fields.items():
        inner = _section_of(field)
        if inner is not None and inner in shown:
            yield from ("", f"A table of `{key}` has the keys [above](#{key}).")
        elif inner is not None:
            shown.add(inner)
            yield from ("", f"### {key}", "", _summary(inner), "")
            yield from _nested_tables(inner, shown)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _summary(section: type[Section]) -> str:
    return " ".join((inspect.getdoc(section) or "").split())


def _section_of(field: FieldInfo) -> type[Section] | None:
    """The table that an option is, or is a list of; None for an option with a plain value."""
    for each in (field.annotation, *get_args(field.annotation)):
        if isinstance(each, type) and issubclass(each, Section):
            return each
    return None


def _values(field: FieldInfo) -> str:
    """Permitted values, in words: "whole number, 0 to 65535"."""
    bounds: dict[type, Any] = {type(item): item for item in field.metadata}
    words = bounds[InWords].text if InWords in bounds else _type_words(field.annotation)
    if Ge in bounds and Le in bounds:
        return f"{words}, {bounds[Ge].ge} to {bounds[Le].le}"
    if Gt in bounds and Le in bounds:
        return f"{words}, above {bounds[Gt].gt}, at most {bounds[Le].le}"
    if Ge in bounds:
        return f"{words}, at least {bounds[Ge].ge}"
    return words


def _values_in_short(field: FieldInfo) -> str:
    """Permitted values for the page, which says once what a size is."""
    return _values(field).replace(OCTETS_FORMS, "size")


def _type_words(annotation: object) -> str:
    if annotation in _TYPE_WORDS:
        return _TYPE_WORDS[annotation]
    choices = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(str, choices))
    if get_origin(annotation) is UnionType:
        return _type_words(choices[0])
    if get_origin(annotation) is tuple:
        section = choices[0]
        if isinstance(section, type) and issubclass(section, Section):
            return "list of tables"
        return f"list of {_type_words(choices[0]).removeprefix('one of ')}"
    raise AssertionError(f"no words for {annotation}")


def _toml(value: object) -> str:
    """A value as TOML spells it; for what options hold, JSON's spelling is TOML's too."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return json.dumps(value, ensure_ascii=False)
