"""Lists of what a broker has: which columns, which rows, in which order, and how many.

``resources`` makes commands of it. The broker filters by name, sorts and pages where it can, so a
few rows of ten thousand queues cost little; the rest is done here. Invariant: the rows are the
same whichever side did it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import PAGE_SIZE_MAX, Api, path_of
from hareline.cli.output import Column, value_at

_CONDITION: Final = re.compile(r"([\w.-]+)\s*(!=|>=|<=|=|>|<|~)\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Resource:
    """A kind of object that the API lists.

    ``is_paged``: whether the API pages, filters and sorts it. ``filters_vhost``: whether the path
    takes a virtual host. ``only``: a condition that each row has to meet. ``keys``: paths of what
    --name matches one of. ``fields``: what rows of a Hareline or a RabbitMQ have beyond the
    columns, by the first parts of their paths.
    """

    name: str
    path: str
    columns: tuple[Column, ...]
    is_paged: bool = False
    takes_vhost: bool = True
    only: str | None = None
    keys: tuple[str, ...] = ("name",)
    extra: tuple[str, ...] = field(default=())
    fields: str = ""

    def path_of(self, name: str, flag: str) -> str:
        """The path of a column's title, or of a field. Raises CommandFailed that names them."""
        for column in self.columns:
            if name in (column.title, column.path):
                return column.path
        known = {each.path.partition(".")[0] for each in self.columns} | set(self.fields.split())
        if name.partition(".")[0] in known:
            return name
        further = known - {each.title for each in self.columns}
        raise CommandFailed(
            f"{flag}: {self.name} have no column '{name}'; columns: "
            f"{', '.join(each.title for each in self.columns)}; fields of the JSON: "
            f"{', '.join(sorted(further))}",
            ExitStatus.USAGE,
        )


@dataclass(frozen=True)
class Condition:
    """``PATH OPERATOR VALUE`` of --where; text is compared as text, numbers as numbers."""

    path: str
    operator: str
    value: str

    def holds(self, row: Any) -> bool:
        found = value_at(row, self.path)
        if self.operator == "~":
            return found is not None and re.search(self.value, _text(found)) is not None
        if self.operator in {"=", "!="}:
            return (_text(found) == self.value) == (self.operator == "=")
        if not isinstance(found, int | float):
            return False
        number = float(self.value)
        match self.operator:
            case ">":
                return found > number
            case "<":
                return found < number
            case ">=":
                return found >= number
            case _:
                return found <= number


def parse_condition(text: str, resource: Resource) -> Condition:
    """Read `messages>100`, `state=running`, `name~^order`. Raises CommandFailed."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise CommandFailed(
            f"--where: '{text}' is not FIELD=VALUE; operators are = != > < >= <= and ~ for a "
            "regular expression",
            ExitStatus.USAGE,
        )
    name, operator, value = found.groups()
    if operator in {">", "<", ">=", "<="}:
        try:
            float(value)
        except ValueError:
            raise CommandFailed(
                f"--where: '{value}' in '{text}' is not a number", ExitStatus.USAGE
            ) from None
    elif operator == "~":
        compiled(value, "--where")
    return Condition(resource.path_of(name, "--where"), operator, value)


def compiled(pattern: str, flag: str) -> re.Pattern[str]:
    """A regular expression of the command line. Raises CommandFailed."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise CommandFailed(
            f"{flag}: '{pattern}' is not a regular expression: {error}", ExitStatus.USAGE
        ) from None


def chosen_columns(text: str | None, resource: Resource) -> list[Column]:
    """The columns of --columns by title or path; the usual ones without it."""
    if text is None:
        return list(resource.columns)
    known = {each.path: each for each in resource.columns}
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise CommandFailed("--columns: names no column", ExitStatus.USAGE)
    paths = {name: resource.path_of(name, "--columns") for name in names}
    return [known.get(path, Column(path, name)) for name, path in paths.items()]


@dataclass(frozen=True)
class Query:
    """Request to a list command."""

    resource: Resource
    vhost: str | None = None
    name: str | None = None
    where: tuple[Condition, ...] = ()
    sort: str | None = None
    limit: int | None = None
    columns: tuple[Column, ...] = ()
    is_narrow: bool = True

    def rows(self, api: Api) -> list[dict[str, Any]]:
        """The rows, filtered, sorted and cut. Raises CommandFailed."""
        found = self._fetched(api)
        keep = self._conditions()
        if self.name is not None and not self.resource.is_paged:
            pattern = compiled(self.name, "--name")
            keys = self.resource.keys
            found = (
                row
                for row in found
                if any(pattern.search(_text(value_at(row, key))) for key in keys)
            )
        rows: Iterable[dict[str, Any]] = (row for row in found if all(c.holds(row) for c in keep))
        if self.sort is not None and not self.resource.is_paged:
            path, is_reverse = self._order(self.sort)
            rows = sorted(rows, key=_by(path), reverse=is_reverse)
        return list(islice(rows, self.limit))

    def _fetched(self, api: Api) -> Iterator[dict[str, Any]]:
        resource = self.resource
        parts = [resource.path]
        if self.vhost is not None and resource.takes_vhost:
            parts.append(self.vhost)
        query: dict[str, Any] = {}
        if self.is_narrow:
            query["columns"] = ",".join(self._needed())
        size = PAGE_SIZE_MAX
        if not resource.is_paged:
            answer = api.get(path_of(*parts), query, what=self._what())
            return iter(answer if isinstance(answer, list) else answer.get("items", []))
        if self.limit is not None and not self._conditions():
            size = min(size, max(self.limit, 1))
        if self.name is not None:
            compiled(self.name, "--name")
            query |= {"name": self.name, "use_regex": "true"}
        if self.sort is not None:
            path, is_reverse = self._order(self.sort)
            query |= {"sort": path, "sort_reverse": str(is_reverse).lower()}
        return api.rows(path_of(*parts), query, size)

    def _conditions(self) -> tuple[Condition, ...]:
        own: tuple[Condition, ...] = ()
        if self.resource.only is not None:
            own = (parse_condition(self.resource.only, self.resource),)
        if self.vhost is not None and not self.resource.takes_vhost:
            own = (*own, Condition("vhost", "=", self.vhost))
        return own + self.where

    def _needed(self) -> list[str]:
        """Paths of all that the answer has to have."""
        paths = [each.path for each in self.columns]
        paths += [each.path for each in self._conditions()]
        paths += self.resource.extra
        if self.sort is not None:
            paths.append(self._order(self.sort)[0])
        if self.name is not None:
            paths += self.resource.keys
        return list(dict.fromkeys(paths))

    def _order(self, text: str) -> tuple[str, bool]:
        """The path to sort by, and whether the largest come first."""
        return self.resource.path_of(text.removeprefix("-"), "--sort"), text.startswith("-")

    def _what(self) -> str:
        return f"vhost '{self.vhost}'" if self.vhost is not None else ""


def _by(path: str) -> Callable[[Any], tuple[bool, float, str]]:
    """A key that puts rows without the value first, and compares numbers as numbers."""

    def key(row: Any) -> tuple[bool, float, str]:
        value = value_at(row, path)
        if isinstance(value, int | float):
            return True, value, ""
        return value is not None, 0.0, _text(value)

    return key


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
