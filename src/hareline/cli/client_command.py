"""Declares a command that asks a broker: adds the options that all of them take.

``@client_command(app)`` stands above a function whose first parameter is a `Session`; the others
are arguments and options as Typer has them. Invariant: the session is closed, and every error is a
sentence, whatever the function does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Annotated, Any, Final

import typer

from hareline.cli.completing import complete_target, complete_vhost
from hareline.cli.failures import errors_as_sentences
from hareline.cli.http_client import Api
from hareline.cli.lean import CONTEXT, LeanCommand
from hareline.cli.output import Output
from hareline.cli.target import Flags, Target, from_environment

DEFAULT_VHOST: Final = "/"

#: What every command takes beside its own: parameter -> (annotation, default).
CONNECTION_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "vhost": (
        Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                help="Virtual host, HARELINE_VHOST.",
                show_default=False,
                autocompletion=complete_vhost,
            ),
        ],
        None,
    ),
    "url": (
        Annotated[
            str | None,
            typer.Option(
                metavar="URL",
                help="Address: http://HOST:15672 or amqp://HOST:5672, HARELINE_URL.",
                show_default=False,
            ),
        ],
        None,
    ),
    "amqp_url": (
        Annotated[
            str | None,
            typer.Option(
                "--amqp-url",
                metavar="URL",
                help="Address for AMQP; by default the same host, port 5672.",
                show_default=False,
            ),
        ],
        None,
    ),
    "target": (
        Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                help="A target of the client's file, HARELINE_TARGET.",
                show_default=False,
                autocompletion=complete_target,
            ),
        ],
        None,
    ),
    "user": (
        Annotated[
            str | None,
            typer.Option(
                metavar="NAME",
                help="Who logs in, HARELINE_USER; the password is HARELINE_PASSWORD.",
                show_default=False,
            ),
        ],
        None,
    ),
    "password_file": (
        Annotated[
            str | None,
            typer.Option(
                "--password-file",
                metavar="FILE",
                help="Its first line is the password.",
                show_default=False,
            ),
        ],
        None,
    ),
    "ca_file": (
        Annotated[
            str | None,
            typer.Option(
                "--ca-file",
                metavar="FILE",
                help="Authorities for https and amqps, HARELINE_CA_FILE.",
                show_default=False,
            ),
        ],
        None,
    ),
    "timeout": (
        Annotated[
            float | None,
            typer.Option(
                metavar="SECONDS",
                help="How long to wait for an answer: 30.",
                min=0.001,
                show_default=False,
            ),
        ],
        None,
    ),
    "as_json": (
        Annotated[bool, typer.Option("--json", help="Print JSON.")],
        False,
    ),
}


class Session:
    """What a command works with: the broker to ask, and where its result goes.

    ``vhost``: the virtual host that was named, or None.
    """

    def __init__(self, target: Target, out: Output) -> None:
        self.target = target
        self.out = out

    @property
    def vhost(self) -> str | None:
        return self.target.vhost

    @property
    def one_vhost(self) -> str:
        """The virtual host for commands on one object: `/` if none was named."""
        return DEFAULT_VHOST if self.vhost is None else self.vhost

    @cached_property
    def api(self) -> Api:
        return Api(self.target)

    def close(self) -> None:
        if "api" in self.__dict__:
            self.api.close()


def client_command(
    app: typer.Typer, name: str | None = None, *, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command, with the options of `CONNECTION_OPTIONS` behind its own.

    ``without``: those of them that it does not take; it may have an option of that name itself.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        own = list(signature.parameters.values())[1:]
        shared = [
            inspect.Parameter(
                option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for option, (annotation, default) in CONNECTION_OPTIONS.items()
            if option not in without
        ]

        @functools.wraps(function)
        def run(**values: Any) -> None:
            with errors_as_sentences():
                session = open_session({each.name: values[each.name] for each in shared})
                try:
                    function(session, **{each.name: values[each.name] for each in own})
                finally:
                    session.close()

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + shared
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        app.command(name, cls=LeanCommand, context_settings=dict(CONTEXT))(run)
        return function

    return register


def open_session(values: dict[str, Any]) -> Session:
    """The session that values of `CONNECTION_OPTIONS` ask for. Raises CommandFailed."""
    flags = Flags(
        target=values.get("target"),
        url=values.get("url"),
        amqp_url=values.get("amqp_url"),
        user=values.get("user"),
        password_file=values.get("password_file"),
        ca_file=values.get("ca_file"),
        vhost=values.get("vhost"),
        timeout_s=values.get("timeout"),
    )
    return Session(from_environment(flags), Output(is_json=bool(values.get("as_json"))))
