"""``hareline completion``: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import sys
from typing import Annotated, Final, Literal

import typer

from hareline.cli.failures import errors_as_sentences
from hareline.cli.lean import CONTEXT, LeanCommand, new_app

app = new_app()

_BASH: Final = """\
_hareline_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        _HARELINE_COMPLETE=complete_bash hareline 2>/dev/null) )
    return 0
}
complete -o default -F _hareline_completion hareline
"""
_ZSH: Final = """\
#compdef hareline
_hareline_completion() {
    eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" \\
        _HARELINE_COMPLETE=complete_zsh hareline 2>/dev/null)
}
compdef _hareline_completion hareline
"""
_FISH: Final = """\
complete --command hareline --no-files --arguments \\
    "(env _HARELINE_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
    _TYPER_COMPLETE_ARGS=(commandline -cp) hareline 2>/dev/null)" --condition \\
    "env _HARELINE_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args \\
    _TYPER_COMPLETE_ARGS=(commandline -cp) hareline 2>/dev/null"
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@app.command(cls=LeanCommand, context_settings=dict(CONTEXT))
def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
) -> None:
    """Print a script that completes commands and names in a shell.

    bash: source <(hareline completion bash), in ~/.bashrc. zsh: the same in ~/.zshrc. fish:
    hareline completion fish > ~/.config/fish/completions/hareline.fish. Names of queues and the
    like are asked of the broker that HARELINE_URL or the client's file names.
    """
    with errors_as_sentences():
        sys.stdout.write(SCRIPTS[shell])
