"""``bigcat completion``: the Tab key knows commands, options and names of methods."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

from bigcat.cli import _output

SHELLS = ("bash", "zsh", "fish")

#: A plain zsh has no completion of its own yet, which bash's is built on there.
_ZSH = """(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u; }
autoload -Uz bashcompinit && bashcompinit"""

_BASH = """\
_bigcat() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words={commands}
  else
    case "${{COMP_WORDS[1]}}" in
{options}
    esac
    case "${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
  fi
  COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _bigcat bigcat"""


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print what makes the Tab key complete commands and options",
        description="Print a script for your shell, which completes commands, options and names "
        "of methods; files where nothing else is possible.",
        epilog="bash: `bigcat completion bash >> ~/.bashrc`; zsh: the same with ~/.zshrc; fish: "
        "`bigcat completion fish > ~/.config/fish/completions/bigcat.fish`.",
    )
    parser.add_argument("shell", choices=SHELLS, help="which shell")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from bigcat.cli import parser

    commands = _commands(parser())
    values = _values(commands.values())
    if arguments.shell == "fish":
        print("\n".join(_fish(commands, values)))
        return 0
    if arguments.shell == "zsh":
        print(_ZSH)
    print(
        _BASH.format(
            commands=shlex.quote(" ".join(commands)),
            options=_cases((name, _flags(one)) for name, one in commands.items()),
            values=_cases(values.items()),
        )
    )
    return 0


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Parsers of the commands, by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    shown = [a for a in parser._actions if a.help != argparse.SUPPRESS]
    return [flag for action in shown for flag in action.option_strings if flag.startswith("--")]


def _values(parsers: Iterable[argparse.ArgumentParser]) -> dict[str, list[str]]:
    """What may follow an option: its choices, and names of parts."""
    from bigcat import combinations, noise, samplers, solvers

    found = {
        "--method": ["auto", *(row["name"] for row in combinations.methods())],
        "--noise": list(noise.REGISTRY),
        "--sampler": ["auto", *samplers.REGISTRY],
        "--solver": ["auto", *solvers.REGISTRY],
    }
    for parser in parsers:
        for action in parser._actions:
            if action.choices and action.option_strings:
                found[action.option_strings[-1]] = list(map(str, action.choices))
    return found


def _cases(words: Iterable[tuple[str, list[str]]]) -> str:
    lines = (f"      {name}) words={shlex.quote(' '.join(found))} ;;" for name, found in words)
    return "\n".join(lines)


def _fish(
    commands: dict[str, argparse.ArgumentParser], values: dict[str, list[str]]
) -> Iterable[str]:
    names = " ".join(commands)
    yield f"complete -c bigcat -n 'not __fish_seen_subcommand_from {names}' -f -a '{names}'"
    for name, parser in commands.items():
        for flag in _flags(parser):
            line = f"complete -c bigcat -n '__fish_seen_subcommand_from {name}' -l {flag[2:]}"
            if flag in values:
                line += f" -x -a '{' '.join(values[flag])}'"
            yield line
