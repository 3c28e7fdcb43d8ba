"""Sources of settings: one TOML file < HARELINE_* environment < command line flags.

Everything wrong comes out as one ``ConfigurationError`` whose lines name place, option and problem.
``listener.port`` is the variable ``HARELINE_LISTENER__PORT``; with ``_FILE`` behind its name a
variable names a file that holds the value. docs/decisions/0002-settings-sources.md has reasons.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from hareline.errors import ConfigurationError
from hareline.settings.options import Settings, leaf_options, mismatch_details
from hareline.settings.section import INCONSISTENT, Section

ENVIRONMENT_PREFIX: Final = "HARELINE_"
CONFIG_VARIABLE: Final = "HARELINE_CONFIG"
STATE_VARIABLE: Final = "STATE_DIRECTORY"
#: Behind a variable's name: its value is in the file that the variable names.
FILE_SUFFIX: Final = "_FILE"
#: What clients on the same machine read: ``hareline queues`` and its like, and Spark's source.
CLIENT_VARIABLES: Final = frozenset(
    f"{ENVIRONMENT_PREFIX}{name}"
    for name in (
        *("URL", "HTTP_URL", "AMQP_URL", "USER", "PASSWORD", "PASSWORD_FILE", "TOKEN", "VHOST"),
        *("TIMEOUT", "TARGET", "CLIENT_CONFIG", "CA_FILE"),
        # `hareline migrate`: the broker that it copies from.
        *("SOURCE_URL", "SOURCE_HTTP_URL", "SOURCE_AMQP_URL", "SOURCE_USER", "SOURCE_TARGET"),
        *("SOURCE_PASSWORD", "SOURCE_PASSWORD_FILE", "SOURCE_CA_FILE", "SOURCE_TIMEOUT"),
    )
)

# Kubernetes announces a service called "hareline" to every pod of its namespace with variables of
# these names. They are not options, and a broker must not refuse to start because of them.
_SERVICE_LINK: Final = re.compile(
    r"HARELINE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?"
    r"|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")

_FAULTY_LINES_MAX: Final = 20
_KEY: Final = re.compile(r"\s*([\w.-]+)\s*=")
_LINE_NUMBER: Final = re.compile(r"line (\d+)")
_TOML_POSITION: Final = re.compile(r"\s*\(at (.+)\)$")

# What may be wrong only because a part of the file could not be read.
_OF_THE_WHOLE: Final = {"missing", INCONSISTENT}

# What pydantic says in its own words and can be said in the operator's.
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


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings, and where their values come from.

    ``origins``: option to the variable or the flag that sets it. ``file_options``: those that the
    file sets; ``overridden`` are those of them for which another value is in force.
    """

    settings: Settings
    path: Path | None
    origins: Mapping[str, str]
    file_options: Collection[str]
    overridden: Sequence[str]

    def origin_of(self, option: str) -> str:
        """The flag, variable or file that set the option; empty for a default."""
        name = option.partition("[")[0]
        in_file = str(self.path) if name in self.file_options else ""
        return self.origins.get(name, in_file)


def load_settings(
    path: Path | None, environ: Mapping[str, str], flags: Sequence[Flag] = ()
) -> Settings:
    """Only the settings of a ``Reading``; see ``read_settings``."""
    return read_settings(path, environ, flags).settings


def read_settings(
    path: Path | None, environ: Mapping[str, str], flags: Sequence[Flag] = ()
) -> Reading:
    """Settings of file, environment and flags; raises `ConfigurationError` with every problem.

    ``path`` None means no file; see `config_path` for what the environment says about it.
    """
    problems: list[str] = []
    tree = _file_tree(path, problems) if path is not None else {}
    is_whole = not problems
    in_file = dict(_given_options(tree))
    origins: dict[str, str] = {}
    _lay_state_directory(tree, origins, environ)
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
        details = error.errors(include_url=False)
        if is_whole:
            seen = {(detail["loc"], detail["msg"]) for detail in details}
            more = mismatch_details(tree)
            details += [each for each in more if (each["loc"], each["msg"]) not in seen]
        else:  # they may follow from what could not be read
            details = [each for each in details if each["type"] not in _OF_THE_WHOLE]
        problems += _sentences(details, origins, default_origin)
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    if path is not None:
        settings = settings.read_from(path)
    given = dict(_given_options(tree))
    overridden = [name for name, value in in_file.items() if given[name] != value]
    return Reading(settings, path, origins, in_file, overridden)


def config_path(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file to read: the one given, or the one that HARELINE_CONFIG names, or none."""
    if given is not None:
        return given
    named = environ.get(CONFIG_VARIABLE, "")
    return Path(named) if named else None


def variable_of(name: str) -> str:
    """The environment variable of an option: ``listener.port`` is HARELINE_LISTENER__PORT."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "__")


def _given_options(tree: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """The options that a tree sets, and their values as they stand there."""
    for name, _ in leaf_options():
        section, _, key = name.rpartition(".")
        table = tree.get(section) if section else tree
        if isinstance(table, Mapping) and key in table:
            yield name, table[key]


def _file_tree(path: Path, problems: list[str]) -> dict[str, Any]:
    """Readable part of the file; reasons for the rest are added to ``problems``."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        problems.append(f"{path}: not UTF-8 at octet {error.start}")
    else:
        return _tree_of_text(path, text, problems)
    return {}


def _tree_of_text(path: Path, text: str, problems: list[str]) -> dict[str, Any]:
    """The text parsed; faulty lines are left out one after the other, so that each is named."""
    lines = text.replace("\r\n", "\n").split("\n")  # as tomllib counts them
    is_in_place = True
    for _ in range(_FAULTY_LINES_MAX):
        try:
            tree = tomllib.loads("\n".join(lines))
        except tomllib.TOMLDecodeError as error:
            reason, position = _split_position(str(error))
        else:
            return tree if is_in_place else {}
        found = _LINE_NUMBER.match(position)
        index = int(found[1]) - 1 if found is not None else len(lines)
        line = lines[index] if index < len(lines) else ""
        key = _KEY.match(line)
        at_key = f"{key[1]}: " if key is not None else ""
        hint = "; text needs quotes" if key is not None and reason == "Invalid value" else ""
        problems.append(f"{path}: {position}: {at_key}not TOML: {reason}{hint}")
        if _is_toml(line):  # the fault is in another line, which is not known
            break
        if line.lstrip().startswith("["):  # what follows would be in another table
            is_in_place = False
        lines[index] = ""
    return {}


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _split_position(text: str) -> tuple[str, str]:
    """tomllib puts the position last, in brackets; an operator looks for it first."""
    found = _TOML_POSITION.search(text)
    if found is None:
        return text, "end of file"
    return text[: found.start()], found[1]


def _lay_state_directory(
    tree: dict[str, Any], origins: dict[str, str], environ: Mapping[str, str]
) -> None:
    """Use the directory that systemd made for StateDirectory=; the first, if there are several."""
    directory = environ.get(STATE_VARIABLE, "").partition(":")[0]
    if directory and "data_dir" not in tree:
        tree["data_dir"] = directory
        origins["data_dir"] = STATE_VARIABLE


def _lay_environment(
    tree: dict[str, Any], origins: dict[str, str], environ: Mapping[str, str], problems: list[str]
) -> None:
    options = {variable_of(name): (name, field) for name, field in leaf_options()}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        of_file = variable.removesuffix(FILE_SUFFIX)
        if variable not in options and of_file in options and variable not in CLIENT_VARIABLES:
            if of_file in environ:
                problems.append(f"{variable}: {of_file} is given too; leave one of them out")
                continue
            try:
                value_text = _secret_in(text)
            except OSError as error:
                problems.append(f"{variable}: cannot read {text}: {error.strerror or error}")
                continue
            except UnicodeDecodeError:
                problems.append(f"{variable}: {text} is not UTF-8")
                continue
        elif variable not in options:
            if variable not in CLIENT_VARIABLES and not _is_service_link(variable, text):
                guess = _guess(variable, options, ENVIRONMENT_PREFIX)
                problems.append(f"{variable}: no option has this variable{guess}")
            continue
        else:
            value_text = text
        name, field = options.get(variable) or options[of_file]
        try:
            value = _value_of_text(field, value_text)
        except ValidationError as error:
            problems += _sentences(error.errors(include_url=False), {}, variable, below=name)
        else:
            _lay(tree, name, value)
            origins[name] = variable


def _secret_in(path: str) -> str:
    """Text of a file, without the end of its last line. Raises OSError, UnicodeDecodeError."""
    return Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")


def _is_service_link(variable: str, text: str) -> bool:
    if variable.endswith("_PORT") and _SERVICE_LINK_VALUE.match(text):
        return True
    return _SERVICE_LINK.fullmatch(variable) is not None


def _value_of_text(field: FieldInfo, text: str) -> object:
    """Value that a file would have held for this text; raises `ValidationError`."""
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
    details: Iterable[ErrorDetails],
    origins: Mapping[str, str],
    default_origin: str,
    below: str = "",
) -> list[str]:
    """One line for each problem: where it was said, which option, what it should be."""
    lines = []
    for detail in details:
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
    """The offending value, if seeing it helps and it is not secret."""
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
