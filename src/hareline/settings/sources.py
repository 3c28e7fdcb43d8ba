"""Where settings come from: one TOML file < HARELINE_* environment < command line flags.

The CLI calls ``load_settings`` at start and again on SIGHUP. Invariant: whatever is wrong comes out
as one ``ConfigurationError`` whose every line names the place that set the value (the file, the
variable or the flag) and the option, ``hareline.toml: listener.port: Input should be ...``.

An option ``listener.port`` is the variable ``HARELINE_LISTENER__PORT``. Text stands for itself, a
list of words is separated by commas, any list may be a JSON array. Why this is not
pydantic-settings: docs/decisions/0002-settings-sources.md.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from hareline.errors import ConfigurationError
from hareline.settings.options import Section, Settings, leaf_options

ENVIRONMENT_PREFIX: Final = "HARELINE_"
CONFIG_VARIABLE: Final = "HARELINE_CONFIG"

# Kubernetes announces a service called "hareline" to every pod of its namespace with variables of
# these names. They are no options of ours, and a broker must not refuse to start over them.
_SERVICE_LINK: Final = re.compile(
    r"HARELINE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?"
    r"|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")

_TOML_POSITION: Final = re.compile(r"\s*\(at (.+)\)$")

# What pydantic says in its own words and we can say in the operator's.
_PLAIN_WORDS: Final = {
    "missing": "this option should be given",
    "model_type": "Input should be a table",
    "tuple_type": "Input should be a list",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """A command line flag that was given: ``Flag("--port", "listener.port", 5673)``."""

    name: str
    option: str
    value: object


def load_settings(
    path: Path | None, environ: Mapping[str, str], flags: Sequence[Flag] = ()
) -> Settings:
    """Read, lay over each other and validate; raises `ConfigurationError` with every problem.

    ``path`` None means no file; see `config_path` for what the environment says about it.
    """
    problems: list[str] = []
    tree = _file_tree(path) if path is not None else {}
    origins: dict[str, str] = {}
    _lay_environment(tree, origins, environ, problems)
    for flag in flags:
        _lay(tree, flag.option, flag.value)
        origins[flag.option] = flag.name
    try:
        # JSON, because pydantic's strict mode for it draws the line where TOML does: a list may
        # become a tuple and a text a path, but "5672" is no number and true is not 1.
        settings = Settings.model_validate_json(json.dumps(tree, default=str), strict=True)
    except ValidationError as error:
        default_origin = str(path) if path is not None else "settings"
        problems += _sentences(error, origins, default_origin)
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return settings


def config_path(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file to read: the one given, else the one HARELINE_CONFIG names, else none."""
    if given is not None:
        return given
    named = environ.get(CONFIG_VARIABLE, "")
    return Path(named) if named else None


def variable_of(name: str) -> str:
    """The environment variable of an option: ``listener.port`` is HARELINE_LISTENER__PORT."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "__")


def _file_tree(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError([f"{path}: not UTF-8 at octet {error.start}"]) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, position = _split_position(str(error))
        raise ConfigurationError([f"{path}: {position}: not TOML: {reason}"]) from None


def _split_position(text: str) -> tuple[str, str]:
    """tomllib puts the position last, in brackets; an operator looks for it first."""
    found = _TOML_POSITION.search(text)
    if found is None:
        return text, "end of file"
    return text[: found.start()], found[1]


def _lay_environment(
    tree: dict[str, Any], origins: dict[str, str], environ: Mapping[str, str], problems: list[str]
) -> None:
    options = {variable_of(name): (name, field) for name, field in leaf_options()}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if variable not in options:
            if not _is_service_link(variable, text):
                guess = _guess(variable, options, ENVIRONMENT_PREFIX)
                problems.append(f"{variable}: no option has this variable{guess}")
            continue
        name, field = options[variable]
        try:
            value = _value_of_text(field, text)
        except ValidationError as error:
            problems += _sentences(error, {}, variable, below=name)
        else:
            _lay(tree, name, value)
            origins[name] = variable


def _is_service_link(variable: str, text: str) -> bool:
    if variable.endswith("_PORT") and _SERVICE_LINK_VALUE.match(text):
        return True
    return _SERVICE_LINK.fullmatch(variable) is not None


def _value_of_text(field: FieldInfo, text: str) -> object:
    """What a file would have held for this text; raises `ValidationError`."""
    # The declaration's own bounds apply here too, so that the variable is blamed for them.
    declared = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    adapter: TypeAdapter[object] = TypeAdapter(cast("Any", declared))
    if get_origin(field.annotation) is not tuple:
        return adapter.dump_python(adapter.validate_strings(text), mode="json")
    if text.lstrip().startswith("["):
        adapter.validate_json(text, strict=True)
        return json.loads(text)
    words = [word for each in text.split(",") if (word := each.strip())]
    adapter.validate_python(words)
    return words


def _lay(tree: dict[str, Any], name: str, value: object) -> None:
    """Set a dotted name in the tree; a table that the file spoilt is left for validation."""
    *sections, key = name.split(".")
    table: Any = tree
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            return
    table[key] = value


def _sentences(
    error: ValidationError, origins: Mapping[str, str], default_origin: str, below: str = ""
) -> list[str]:
    """One line for each thing wrong: where it was said, which option, what it should be."""
    lines = []
    for detail in error.errors(include_url=False):
        if detail["type"] == "default_factory_not_called":
            continue  # Follows from another error, which has its own line.
        place = (*filter(None, below.split(".")), *detail["loc"])
        origin = origins.get(".".join(map(str, place[:2])), "")
        origin = origin or origins.get(str(place[0]) if place else "", default_origin)
        if detail["type"] == "extra_forbidden":
            message = "unknown option" + _guess(str(place[-1]), _keys_at(place[:-1]))
        else:
            message = _PLAIN_WORDS.get(detail["type"], detail["msg"])
            message += _as_given(place, detail["input"])
        lines.append(f"{origin}: {_dotted(place)}: {message}")
    return lines


def _as_given(place: Sequence[str | int], value: object) -> str:
    """The offending value, where seeing it helps and it is no secret."""
    is_secret = place[:1] == ("users",)
    if is_secret or value is None or isinstance(value, dict | list | tuple):
        return ""
    return f" (given: {json.dumps(value, ensure_ascii=False, default=str)})"


def _dotted(place: Sequence[str | int]) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "settings"


def _keys_at(place: Sequence[str | int]) -> Collection[str]:
    """The keys that the table at this place may have."""
    model: type[Section] = Settings
    for part in place:
        if isinstance(part, str):
            field = model.model_fields[part]
            candidates = getattr(field.annotation, "__args__", (field.annotation,))
            model = next(
                each for each in candidates if isinstance(each, type) and issubclass(each, Section)
            )
    return model.model_fields


def _guess(word: str, known: Collection[str], prefix: str = "") -> str:
    """ "; did you mean ...?", or nothing. A prefix that all have says nothing about closeness."""
    rests = [each.removeprefix(prefix) for each in known]
    close = difflib.get_close_matches(word.removeprefix(prefix), rests, n=1, cutoff=0.7)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
