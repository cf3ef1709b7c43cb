"""`stromboli completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click

_EXAMPLES = """\b
Examples:
  source <(stromboli completion bash)
  stromboli completion zsh > "${fpath[1]}/_stromboli"
  stromboli completion fish > ~/.config/fish/completions/stromboli.fish
"""


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    from stromboli.console.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "stromboli", "_STROMBOLI_COMPLETE").source())
