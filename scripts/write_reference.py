"""Write the files that are generated from the code: the sample file and pages of docs/.

`make reference` runs it; tests/test_reference.py fails while a file is not what it would write.
"""

from __future__ import annotations

from pathlib import Path

from hareline.events import ALL
from hareline.settings.reference import sample, with_tables
from scripts import (
    management_differences,
    rabbitmq_4,
    write_cli,
    write_features,
    write_modules,
    write_rights,
)

ROOT = Path(__file__).resolve().parent.parent

EVENTS_BEGIN = "<!-- events: written by `make reference` -->"
EVENTS_END = "<!-- end of events -->"


def event_table() -> str:
    """The Markdown table of operational log messages, markers included."""
    lines = [EVENTS_BEGIN, "", "| Code | Message | Fields |", "|---|---|---|"]
    for event in ALL:
        fields = ", ".join(f"`{field}`" for field in event.fields)
        lines.append(f"| {event.code} | {event.text} | {fields} |")
    return "\n".join([*lines, "", EVENTS_END])


def generated_files() -> dict[Path, str]:
    """What each file should hold, by its path."""
    configuration = ROOT / "docs" / "configuration.md"
    messages = ROOT / "docs" / "log-messages.md"
    commands = ROOT / "docs" / "cli.md"
    http_api = ROOT / "docs" / "http-api.md"
    security = ROOT / "docs" / "security.md"
    page = messages.read_text(encoding="utf-8")
    tests = write_features.tests_by_row(ROOT / "tests")
    begin, end = page.index(EVENTS_BEGIN), page.index(EVENTS_END) + len(EVENTS_END)
    return {
        ROOT / "config" / "hareline.toml": sample(),
        configuration: with_tables(configuration.read_text(encoding="utf-8")),
        commands: write_cli.with_tables(commands.read_text(encoding="utf-8")),
        http_api: write_rights.with_needs(
            management_differences.with_table(http_api.read_text(encoding="utf-8"))
        ),
        messages: page[:begin] + event_table() + page[end:],
        security: write_rights.with_tables(security.read_text(encoding="utf-8")),
        ROOT / "docs" / "features.md": write_features.page(tests),
        ROOT / "docs" / "feature-tests.md": write_features.tests_page(tests),
        ROOT / "docs" / "rabbitmq-4.md": rabbitmq_4.page(),
        ROOT / "docs" / "modules.md": write_modules.page(ROOT / "src" / "hareline"),
    }


def main() -> None:
    """Bring every generated file up to date."""
    for path, text in generated_files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
