"""Build hook of the wheel that has the hot modules compiled by mypyc; off by default.

hatchling loads `CompiledWheelHook` for `make wheel COMPILED=1`, which sets
HATCH_BUILD_HOOK_ENABLE_CUSTOM; pyproject.toml names what it needs then. The sources stay in the
wheel, beside the extension modules that Python prefers to them, so tracebacks show their lines.
Nothing is written into the source tree. The compiler runs in a process of its own: this file as a
program, in a temporary directory.

`COMPILED` and `LEFT_OUT` are the one list of what is compiled.
docs/compiled-build.md says what the source must keep to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Modules below ``hareline``, as patterns; a ``*`` stands for dots too.
COMPILED: Final = (
    "later",
    "message.*",
    "wire.*",
    "amqp.*",
    "queues.*",
    "broker.audit.queue",
    "broker.exchanges.*",
    "broker.exchange_types",
    "broker.filtered_exchange",
    "broker.local_random_exchange",
    "broker.producers",
    "broker.restoring",
    "broker.routing",
    "broker.stream_queue",
    "storage.interface",
    "storage.journal.format.*",
    "storage.store.*",
)

#: What of these is left out, and why.
LEFT_OUT: Final = {
    "message.exported": "asks numbers for their wire types, which mypyc takes away",
    "message.large_body": "bodies in files are referred to weakly",
    "message.message": "a stored message has a property where a message has an attribute",
    "message.stored": "a stored message has a property where a message has an attribute",
    "wire.methods": "classes that pamqp makes, with their metaclass",
    "wire.stream_chunks": "read ranges of streams, in processes of their own",
    "wire.table": "its types derive from int, float, list and dict",
    "amqp.alarms": "called a few times a day",
    "amqp.auto_creation": "once a missing queue",
    "amqp.client": "a record of a connection",
    "amqp.consumer_arguments": "reads what a declaration says",
    "amqp.context": "wiring; a record of everything else",
    "amqp.handshake": "once a connection",
    "amqp.internal_events": "once a connection, a channel or a consumer",
    "amqp.ending": "once a connection, and once a heartbeat",
    "amqp.method_dispatch": "once a control method",
    "amqp.*_methods": "once a control method",
    "amqp.product": "once a connection",
    "broker.exchanges.bindings": "what bindings there are, for who asks",
    "queues.dead_letters.*": "its parts are replaced by others in audited queues",
    "queues.declare.*": "reads what a declaration says",
    "queues.core.start_position": "a frozen dataclass, made once a reader",
    "queues.core.environment": "a frozen dataclass that is filled once",
    "queues.orders.sort_keys": "asks numbers for their wire types, which mypyc takes away",
    "queues.orders.log_columns": "a page at a time, most of it in arrays",
    "queues.orders.log_pages": "a page at a time, most of it in arrays",
    "queues.orders.read_back": "a page at a time, most of it in arrays",
    "queues.orders.window": "a page at a time, most of it in arrays",
    "queues.core.audit_recorder": "samples some of the messages",
    "queues.core.dead_letter_scheduler": "once a turn",
    "queues.core.ownership": "when a queue is declared",
    "queues.core.pages": "a page at a time, most of it in arrays",
    "queues.core.part_ports": "its classes must have no type to mypyc; it says why",
    "queues.policies.*": "reached by ports; see part_ports",
    "storage.store.compaction": "once a batch, or in a thread",
    "storage.store.large_bodies": "waits for files",
    "storage.store.liveness": "once a batch",
    "storage.store.pinned": "once a large body",
    "storage.store.spool": "waits for files",
    "storage.store.state": "a record of what was recovered",
}

CONFIGURATION: Final = """\
[mypy]
mypy_path = src
namespace_packages = true
explicit_package_bases = true
ignore_missing_imports = true
"""


def compiled_modules(source: Path) -> list[Path]:
    """The files to compile, from the directory that has the package ``hareline``, sorted."""
    package = source / "hareline"
    return [
        path
        for path in sorted(package.rglob("*.py"))
        if path.name != "__init__.py"
        and is_compiled(".".join(path.relative_to(package).with_suffix("").parts))
    ]


def is_compiled(module: str) -> bool:
    """True if this module, named from below ``hareline``, is compiled."""
    return any(fnmatch(module, each) for each in COMPILED) and not any(
        fnmatch(module, each) for each in LEFT_OUT
    )


class CompiledWheelHook(BuildHookInterface[Any]):
    """Adds the extension modules to the wheel, and its tag says for which Python they are."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add what was made; an editable install stays as it is."""
        if self.target_name != "wheel" or version == "editable":
            return
        self._directory = tempfile.mkdtemp(prefix="hareline-compiled-")
        try:
            made = _compile(Path(self.root) / "src", Path(self._directory))
        except BaseException:
            shutil.rmtree(self._directory)  # ``finalize`` is not called then
            raise
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update(made)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary directory."""
        if hasattr(self, "_directory"):
            shutil.rmtree(self._directory)


def _compile(source: Path, directory: Path) -> dict[str, str]:
    """Compile in ``directory``; returns the extension modules with their places in the wheel."""
    shutil.copytree(source / "hareline", directory / "src" / "hareline")
    (directory / "mypy.ini").write_text(CONFIGURATION, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, Path(__file__).resolve()],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"mypyc or the C compiler has failed:\n{run.stdout}")
    made = directory / "made"
    return {
        str(path): path.relative_to(made).as_posix()
        for path in sorted(made.rglob("*"))
        if path.suffix in {".so", ".pyd"}
    }


def _run_compiler() -> None:
    """Compile the modules of ``src``, below the working directory, into ``made``."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    files = [str(path) for path in compiled_modules(Path("src"))]
    extensions = mypycify(
        ["--config-file", "mypy.ini", *files],
        group_name="hareline",
        multi_file=True,  # a fifth of the C, and of the time and memory that compiling it takes
        opt_level="2",
        debug_level="0",
    )
    distribution = Distribution({"name": "hareline", "ext_modules": extensions})
    command = distribution.get_command_obj("build_ext")
    command.build_lib = "made"
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    _run_compiler()
