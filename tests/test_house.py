"""The bars of the house: how long a module may be, how much a class may offer, that no modules
import each other in a circle, and that each module has a test module.

Each bar is a function of a tree, tested on small trees at the end. A module without a test module
of its own stands in a table with the file that tests it; an entry that is no longer needed fails.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.sources import imports_of, modules_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "hareline"

LINES_MAX = 500
#: Methods and properties that a class offers, with those of its bases of ours.
NAMES_MAX = 30

#: Module -> the file that tests it, and what it does there.
TESTED_ELSEWHERE: dict[str, tuple[str, str]] = {
    "administration.administration": (
        "tests/unit/administration/test_users.py",
        "reloads and restarts it",
    ),
    "administration.error": ("tests/unit/administration/test_users.py", "expects it"),
    "administration.origins": ("tests/unit/administration/test_users.py", "is refused by them"),
    "administration.policy_effects": (
        "tests/unit/administration/test_policies.py",
        "changes policies of many queues",
    ),
    "administration.vhost_removal": (
        "tests/unit/administration/test_vhosts.py",
        "deletes virtual hosts with queues",
    ),
    "management.api.administering": (
        "tests/management/test_administration.py",
        "asks the routes that share it",
    ),
    "management.api.definitions": ("tests/management/test_administration.py", "asks it over HTTP"),
    "management.api.limits": ("tests/management/test_administration.py", "asks it over HTTP"),
    "management.api.parameters": ("tests/management/test_administration.py", "asks it over HTTP"),
    "management.api.permissions": ("tests/management/test_administration.py", "asks it over HTTP"),
    "management.api.policies": ("tests/management/test_administration.py", "asks it over HTTP"),
    "management.api.users": ("tests/management/test_administration.py", "asks it over HTTP"),
    "vhost_factory": ("tests/unit/test_server.py", "starts and reloads brokers with virtual hosts"),
    "auth.grants": ("tests/unit/auth/test_permissions.py", "abstract; asks what implements it"),
    "authorities.http": (
        "tests/server/test_http_backend.py",
        "logs in by it, and does what it may",
    ),
    "authorities.oauth": ("tests/server/test_oauth.py", "logs in by it, and does what it may"),
    "amqp.connection_parts": ("tests/unit/amqp/test_connection.py", "a record; hands it out"),
    "amqp.ports": ("tests/unit/amqp/test_channel.py", "abstract; calls what implements it"),
    "metrics.families": ("tests/unit/metrics/test_rendering.py", "a table; renders all of it"),
    "metrics.own": ("tests/unit/metrics/test_rendering.py", "is a part of a scrape"),
    "metrics.rows": ("tests/unit/metrics/test_rendering.py", "renders every row"),
    "metrics.source": ("tests/unit/metrics/test_rendering.py", "renders what it finds"),
    "broker.enqueueing": (
        "tests/unit/amqp/test_publishing.py",
        "abstract; publishes into both kinds",
    ),
    "broker.queues.dispatch.lane": (
        "tests/unit/broker/queues/test_combinations.py",
        "abstract; delivers by every lane",
    ),
    "broker.queues.kinds": ("tests/unit/broker/queues/test_wiring.py", "names; wires by them"),
    "broker.queues.part_ports": (
        "tests/unit/broker/queues/test_combinations.py",
        "abstract; puts all parts together",
    ),
    "broker.queues.ports": (
        "tests/unit/broker/queues/test_combinations.py",
        "abstract; puts all parts together",
    ),
    "auth.work": ("tests/unit/net/test_login_workers.py", "abstract; calls what implements it"),
    "__main__": ("tests/server/test_command.py", "runs it"),
    "broker.exchanges.exchange": (
        "tests/unit/broker/exchanges/test_registry.py",
        "holds every type to it",
    ),
    "broker.exchanges.filtered": (
        "tests/unit/broker/test_binder.py",
        "binds with and without filters",
    ),
    "broker.queues.entry": (
        "tests/unit/broker/queues/test_queue.py",
        "takes entries through their states",
    ),
    "broker.queues.paging.pressure": (
        "tests/unit/broker/queues/paging/test_window.py",
        "one field; sets it",
    ),
    "broker.selectors.error": (
        "tests/unit/broker/selectors/test_parser.py",
        "expects it with its position",
    ),
    "broker.selectors.rules": ("tests/unit/broker/selectors/test_compiler.py", "compiles by them"),
    "broker.selectors.syntax": (
        "tests/unit/broker/selectors/test_parser.py",
        "builds and prints trees",
    ),
    "choices": ("tests/unit/test_cli.py", "chooses from them"),
    "commands.get": ("tests/interop/test_message_commands.py", "takes messages from a broker"),
    "commands.publish": ("tests/interop/test_message_commands.py", "publishes to a broker"),
    "commands.tail": ("tests/interop/test_message_commands.py", "follows queues of a broker"),
    "commands.amqp_client": (
        "tests/interop/test_message_commands.py",
        "connects to brokers, and to none",
    ),
    "commands.perf.command": ("tests/interop/test_perf_command.py", "puts load on a broker"),
    "commands.perf.roles": ("tests/interop/test_perf_command.py", "puts load on a broker"),
    "commands.perf.worker": ("tests/interop/test_perf_command.py", "puts load on a broker"),
    "cli_journal": ("tests/server/test_journal_cli.py", "runs it as a command"),
    "management.api.binding_changes": (
        "tests/management/test_binding_changes.py",
        "asks it over HTTP",
    ),
    "management.api.changing": (
        "tests/management/test_topology_changes.py",
        "declares and is refused over HTTP",
    ),
    "management.api.policy_rights": (
        "tests/management/api/test_policy_rights.py",
        "sets policies over HTTP, and is refused",
    ),
    "management.api.message_files": (
        "tests/management/test_messages.py",
        "exports and imports over HTTP",
    ),
    "management.api.message_json": ("tests/management/test_messages.py", "browses over HTTP"),
    "management.api.messages": ("tests/management/test_messages.py", "asks it over HTTP"),
    "management.api.publishing": ("tests/management/test_messages.py", "publishes over HTTP"),
    "management.api.queue_operations": (
        "tests/management/test_queue_operations.py",
        "asks it over HTTP",
    ),
    "management.api.sorting": ("tests/management/api/test_sorting.py", "asks for lists in order"),
    "management.api.selections": ("tests/management/test_messages.py", "selects over HTTP"),
    "management.api.topology_changes": (
        "tests/management/test_topology_changes.py",
        "asks it over HTTP",
    ),
    "management.app": ("tests/management/test_app.py", "asks it over HTTP"),
    "management.listener": ("tests/management/test_app.py", "asks it over HTTP"),
    "http_side": ("tests/management/test_app.py", "runs it in a broker"),
    "management.health": ("tests/management/test_app.py", "asks it over HTTP"),
    "management.paths": ("tests/management/api/test_queues.py", "asks for names with anything"),
    "management.api.access": ("tests/management/api/test_access.py", "asks as every user"),
    "management.api.bindings": ("tests/management/api/test_bindings.py", "asks it over HTTP"),
    "management.api.channels": ("tests/management/api/test_connections.py", "asks it over HTTP"),
    "management.api.connections": (
        "tests/management/api/test_connections.py",
        "asks it over HTTP",
    ),
    "management.api.consumers": ("tests/management/api/test_consumers.py", "asks it over HTTP"),
    "management.api.unacknowledged": (
        "tests/management/api/test_unacknowledged.py",
        "asks it over HTTP",
    ),
    "management.api.blocking": ("tests/management/api/test_blocking.py", "asks it over HTTP"),
    "management.api.effective_arguments": (
        "tests/management/api/test_effective_arguments.py",
        "asks it over HTTP",
    ),
    "management.api.exchanges": ("tests/management/api/test_exchanges.py", "asks it over HTTP"),
    "management.api.health": ("tests/management/api/test_health.py", "asks it over HTTP"),
    "management.api.live": ("tests/management/api/test_access.py", "looks for connections"),
    "management.api.nodes": ("tests/management/api/test_overview.py", "asks it over HTTP"),
    "management.api.one_node": ("tests/management/api/test_one_node.py", "asks it over HTTP"),
    "management.api.overview": ("tests/management/api/test_overview.py", "asks it over HTTP"),
    "management.api.product": ("tests/management/api/test_overview.py", "asks it over HTTP"),
    "management.api.queues": ("tests/management/api/test_queues.py", "asks it over HTTP"),
    "management.api.rates": ("tests/management/api/test_queues.py", "asks for samples"),
    "management.api.site": ("tests/management/api/test_overview.py", "records; shows them"),
    "management.api.changes": ("tests/management/api/test_changes.py", "asks it over HTTP"),
    "management.api.dead_letters": (
        "tests/management/api/test_dead_letters.py",
        "asks it over HTTP",
    ),
    "management.api.documentation": (
        "tests/management/api/test_documentation.py",
        "asks it over HTTP",
    ),
    "management.api.near_limits": ("tests/management/api/test_near_limits.py", "asks it over HTTP"),
    "management.api.queue_arguments": (
        "tests/management/api/test_queue_arguments.py",
        "asks it over HTTP",
    ),
    "management.api.route_test": ("tests/management/api/test_route_test.py", "asks it over HTTP"),
    "management.api.search": ("tests/management/api/test_search.py", "asks it over HTTP"),
    "management.web_ui": ("tests/management/test_web_ui.py", "asks it over HTTP"),
    "management.api.whoami": ("tests/management/api/test_access.py", "asks it over HTTP"),
    "management.range_answers": ("tests/management/test_streams.py", "reads ranges over HTTP"),
    "management.readers": ("tests/management/test_readers.py", "asks it over HTTP"),
    "management.stream_access": ("tests/management/test_streams.py", "is refused over HTTP"),
    "management.streams": ("tests/management/test_streams.py", "asks them over HTTP"),
    "management.refusals": ("tests/unit/management/test_replay.py", "expects them"),
    "pytest_plugin": ("tests/server/test_pytest_plugin.py", "runs pytest with it"),
    "spark.pipelines.archive": ("tests/spark/pipelines/test_archive.py", "runs it in Spark"),
    "spark.pipelines.audit_events": (
        "tests/spark/pipelines/test_report.py",
        "works out made-up events in Spark and in plain Python",
    ),
    "spark.pipelines.layout": ("tests/spark/pipelines/test_archive.py", "writes and reads with it"),
    "spark.pipelines.replay": ("tests/spark/pipelines/test_replay.py", "replays archives in Spark"),
    "spark.pipelines.replay_target": (
        "tests/spark/pipelines/test_replay.py",
        "replays by it, and changes headers",
    ),
    "spark.writing.sink": ("tests/spark/writing/test_sink.py", "writes with it in Spark"),
    "spark.pipelines.places": ("tests/spark/pipelines/test_places.py", "asks Hadoop by Spark"),
    "spark.pipelines.report": ("tests/spark/pipelines/test_report.py", "makes reports in Spark"),
    "statistics.facts": ("tests/unit/statistics/test_readings.py", "records; reads them"),
    "testing": ("tests/server/test_embedding.py", "starts brokers with it"),
    "wire.constants": ("tests/unit/wire/test_decoder.py", "numbers; decodes by them"),
}


def long_modules(package: Path) -> dict[str, int]:
    """The modules with more than `LINES_MAX` lines, and how many each has."""
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines())
        for name, path in modules_of(package).items()
    }
    return {name: length for name, length in lengths.items() if length > LINES_MAX}


def import_circles(package: Path) -> list[list[str]]:
    """The groups of modules that all reach each other by imports, in sorted order."""
    modules = modules_of(package)
    imported = {
        name: _imported_modules(package.name, name, path, modules) for name, path in modules.items()
    }
    reached = {name: _reached(name, imported) for name in modules}
    circles = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in modules
        if name in reached[name]
    }
    return [list(circle) for circle in sorted(circles)]


def wide_classes(package: Path) -> dict[str, int]:
    """The classes with more than `NAMES_MAX` public methods and properties, and how many."""
    classes = _classes(package)
    counts = {name: len(_offered(name, classes)) for name in classes}
    return {name: count for name, count in counts.items() if count > NAMES_MAX}


def untested_modules(package: Path, tests: Path) -> set[str]:
    """The modules with code that have no test module at the mirrored place below ``tests``."""
    return {
        name
        for name, path in modules_of(package).items()
        if _has_code(path) and not _test_module(tests, path.relative_to(package)).exists()
    }


def _imported_modules(
    package: str, name: str, path: Path, modules: Mapping[str, Path]
) -> frozenset[str]:
    """The modules that one imports names of, or as a whole; never itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    is_package = path.name == "__init__.py"
    found = set()
    for _, imported in imports_of(name, tree, package=package, is_package=is_package):
        top, _, rest = imported.partition(".")
        if top == package:
            found.add(_module_of(rest, modules))
    return frozenset(found - {name})


def _module_of(dotted: str, modules: Mapping[str, Path]) -> str:
    """The longest part of a name that is a module: ``wire.table.Table`` is of ``wire.table``."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in modules:
            return name
    return "__init__"


def _reached(start: str, imported: Mapping[str, frozenset[str]]) -> set[str]:
    """All that can be reached by one import or more."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imported.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


class _Class:
    """What is read of a class: the names it offers, and the full names of its bases."""

    def __init__(self, node: ast.ClassDef, bases: list[str]) -> None:
        self.bases = bases
        self.names = {
            each.name
            for each in node.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name[0] != "_"
        }


def _classes(package: Path) -> dict[str, _Class]:
    """All classes of a package by module and name; imported names stand for what they are."""
    modules = modules_of(package)
    aliases: dict[str, str] = {}
    nodes = []
    for module, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        aliases |= _aliases(package.name, module, tree, is_package=path.name == "__init__.py")
        nodes += [
            (module, node, f"{module}.{node.name}")
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        ]
    return {
        name: _Class(node, [_base(module, each, aliases) for each in node.bases])
        for module, node, name in nodes
    }


def _aliases(package: str, module: str, tree: ast.Module, *, is_package: bool) -> dict[str, str]:
    """What a module's imported names stand for, as ``module.name`` -> the name in the package."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            one = ast.Module([node], [])
            names = [
                each for _, each in imports_of(module, one, package=package, is_package=is_package)
            ]
            for alias, full in zip(node.names, names, strict=True):
                if full.startswith(f"{package}."):
                    found[f"{module}.{alias.asname or alias.name}"] = full.partition(".")[2]
    return found


def _base(module: str, node: ast.expr, aliases: Mapping[str, str]) -> str:
    """The full name of a base: its alias followed to where the class is defined."""
    if isinstance(node, ast.Subscript):
        node = node.value
    first, _, rest = ast.unparse(node).partition(".")
    name = f"{module}.{first}"
    seen = set()
    while name in aliases and name not in seen:
        seen.add(name)
        name = aliases[name]
    name = f"{name}.{rest}" if rest else name
    return aliases.get(name, name)


def _offered(name: str, classes: Mapping[str, _Class]) -> set[str]:
    if name not in classes:
        return set()
    names = set(classes[name].names)
    for base in classes[name].bases:
        if base != name:
            names |= _offered(base, classes)
    return names


def _has_code(path: Path) -> bool:
    """False for a package's ``__init__`` that at most imports and says what it is."""
    if path.name != "__init__.py":
        return True
    body = ast.parse(path.read_text(encoding="utf-8")).body
    quiet = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    return not all(isinstance(node, quiet) for node in body)


def _test_module(tests: Path, source: Path) -> Path:
    if source.name == "__init__.py":
        return tests / source.parent / "test_init.py"
    return tests / source.parent / f"test_{source.stem.strip('_')}.py"


# --------------------------------------------------------------------------- the house as it is


def test_no_module_is_long() -> None:
    assert long_modules(PACKAGE) == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert import_circles(PACKAGE) == []


def test_no_class_offers_too_much() -> None:
    assert wide_classes(PACKAGE) == {}


def test_every_module_has_a_test_module_or_a_reason() -> None:
    untested = untested_modules(PACKAGE, ROOT / "tests" / "unit")
    assert untested - TESTED_ELSEWHERE.keys() == set()
    own = TESTED_ELSEWHERE.keys() - untested
    assert not own, f"have test modules of their own, or are gone: {sorted(own)}"


@pytest.mark.parametrize("module", sorted(TESTED_ELSEWHERE))
def test_what_tests_a_module_elsewhere_is_there(module: str) -> None:
    file, reason = TESTED_ELSEWHERE[module]
    assert (ROOT / file).is_file()
    assert reason


# --------------------------------------------------------------------- the bars, on small trees


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package ``house``; ``build`` fills it."""
    package = tmp_path / "house"
    package.mkdir()
    return package


def build(package: Path, **sources: str) -> Path:
    """Write modules, named with ``__`` for a dot; packages get an empty ``__init__``."""
    for name, source in sources.items():
        parts = [name] if name == "__main__" else name.split("__")
        path = package.joinpath(*parts).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(source, encoding="utf-8")
    return package


def test_a_module_of_too_many_lines_is_noticed(tree: Path) -> None:
    build(tree, a__long="x = 1\n" * (LINES_MAX + 1), short="x = 1\n" * LINES_MAX)
    assert long_modules(tree) == {"a.long": LINES_MAX + 1}


@pytest.mark.parametrize(
    "back",
    [
        "from house.a import A",
        "import house.a",
        "from house import a",
        "from .a import A",
        "from . import a",
        "def f():\n    from house.a import A",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.a import A",
    ],
)
def test_a_circle_of_imports_is_noticed_however_one_imports(tree: Path, back: str) -> None:
    build(tree, a="from house.b import B", b="from house.c import C", c=back, d="import house.a")
    assert import_circles(tree) == [["a", "b", "c"]]


def test_circles_that_do_not_touch_are_told_apart(tree: Path) -> None:
    build(
        tree,
        p__a="from . import b",
        p__b="from .a import A",
        q__c="from house.q import d",
        q__d="import house.q.c\nimport house.p.a",
    )
    assert import_circles(tree) == [["p.a", "p.b"], ["q.c", "q.d"]]


def test_a_package_and_its_module_may_make_a_circle(tree: Path) -> None:
    build(tree, p__a="from house.p import NAME")
    (tree / "p" / "__init__.py").write_text("from .a import NAME", encoding="utf-8")
    assert import_circles(tree) == [["p", "p.a"]]


def test_imports_in_one_direction_are_no_circle(tree: Path) -> None:
    build(tree, a="from house.b import B\nimport os", b="import house.c", c="import json")
    assert import_circles(tree) == []


def methods(first: int, last: int) -> str:
    return "".join(f"    def m{number}(self): ...\n" for number in range(first, last))


def test_a_class_that_offers_too_much_is_noticed(tree: Path) -> None:
    some = methods(0, NAMES_MAX)
    build(
        tree,
        wide=f"class Wide:\n{some}    async def one_more(self): ...\n",
        read=f"class Read:\n{some}    @property\n    def size(self): ...\n",
        full=f"class Full:\n{some}    def _private(self): ...\n    def __len__(self): ...\n",
    )
    assert wide_classes(tree) == {"wide.Wide": NAMES_MAX + 1, "read.Read": NAMES_MAX + 1}


def test_fields_and_members_are_no_methods(tree: Path) -> None:
    fields = "".join(f"    f{number}: int = {number}\n" for number in range(NAMES_MAX + 1))
    build(tree, a=f"class Record:\n{fields}", b=f"class Kind(Enum):\n{fields}")
    assert wide_classes(tree) == {}


@pytest.mark.parametrize(
    ("imported", "base"),
    [
        ("from house.a import Base", "Base"),
        ("from house.a import Base as Other", "Other"),
        ("from .a import Base", "Base"),
        ("from house.p import Base", "Base"),
        ("from house import a", "a.Base"),
        ("from house.a import Base", "Base[int]"),
    ],
)
def test_names_of_bases_count_and_overridden_ones_once(
    tree: Path, imported: str, base: str
) -> None:
    build(tree, a=f"class Base:\n{methods(0, 20)}", p__c="x = 1")
    (tree / "p" / "__init__.py").write_text("from house.a import Base", encoding="utf-8")
    source = f"{imported}\nclass Child({base}):\n"
    build(tree, b=source + methods(10, 30))
    assert wide_classes(tree) == {}
    build(tree, b=source + methods(10, 31))
    assert wide_classes(tree) == {"b.Child": 31}


def test_a_module_without_a_test_module_is_noticed(tree: Path, tmp_path: Path) -> None:
    build(tree, amqp__channel="", amqp__connection="", errors="", __main__="")
    (tree / "amqp" / "__init__.py").write_text('"""Only a name."""\nVERSION = 1\n')
    tests = tmp_path / "unit"
    (tests / "amqp").mkdir(parents=True)
    (tests / "amqp" / "test_channel.py").touch()
    (tests / "test_connection.py").touch()
    assert untested_modules(tree, tests) == {"amqp.connection", "errors", "__main__"}
    (tree / "amqp" / "__init__.py").write_text("def f(): ...\n")
    assert "amqp" in untested_modules(tree, tests)
