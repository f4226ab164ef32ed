"""Completions for bash, zsh and fish, which shtab writes from the parsers when ktxkit is built.

Job ids and unit keys are read from the store at the moment they are asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktxkit.app.cli import Parser
from ktxkit.app.rules.command_spec import Command

SHELLS = ("bash", "zsh", "fish")
GIT = "git-ktx"
WRITTEN = Path(__file__).parent / "assets"  # of an installed ktxkit; in a checkout they are not there

_STORES = 'g=$(git rev-parse --path-format=absolute --git-common-dir); for d in "${KTX_DIR:-$g/../.ktx}" "$g/ktx"; do'
LISTS = {  # kinds of values, and what lists them; for sh, without a single quote
    "job": f'{{ {_STORES} ls "$d/jobs"; done; }} 2>/dev/null',
    "unit": f'{{ {_STORES} ls "$d"/jobs/*/units; done; }} 2>/dev/null | sed -n "s/^[0-9]\\{{4\\}}-//p" | sort -u',
}
LISTERS = {
    "bash": '_ktx_{0}s() {{ compgen -W "$(sh -c \'{1}\')" -- "$1"; }}',
    "zsh": "_ktx_{0}s() {{ local -a found=(${{(f)\"$(sh -c '{1}')\"}}); compadd -a found }}",
    "fish": "function __ktx_{0}s; sh -c '{1}'; end",
}
# The commands by their own names are subcommands of `git ktx`; `git ktx` itself is completed by git's own completion,
# which calls a function that is named after it.
OTHERS = {
    "bash": """
_ktx() {{
  COMP_WORDS=({git} "${{COMP_WORDS[0]##*/}}" "${{COMP_WORDS[@]:1}}")
  COMP_CWORD=$((COMP_CWORD + 1))
  {function}
}}
_git_ktx() {{
  local at=0
  while [[ $at -lt $COMP_CWORD && ${{COMP_WORDS[at]}} != ktx ]]; do at=$((at + 1)); done
  COMP_WORDS=({git} "${{COMP_WORDS[@]:at+1}}")
  COMP_CWORD=$((COMP_CWORD - at))
  {function}
}}
complete -o bashdefault -F _ktx {plain}
""",
    "zsh": """
_ktx() {{
  if [[ ${{words[1]:t}} != {git} ]]; then
    words=({git} ${{words[1]:t}} "${{(@)words[2,-1]}}")
    (( CURRENT++ ))
  fi
  {function}
}}
_git-ktx() {{ {function} }}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _ktx "$@"
else compdef _ktx {plain} {git}; fi
""",
    "fish": "\n",
}


def written(shell: str) -> str | None:
    """The script that came with the installed ktxkit; None in a checkout."""
    path = WRITTEN / f"completions.{shell}"
    return path.read_text("utf-8") if path.is_file() else None


def render(shell: str, parsers: Sequence[Parser]) -> str:
    """The script of one of SHELLS, for every command. Raises ImportError where shtab is not installed."""
    import shtab

    root = argparse.ArgumentParser(GIT, description="what is installed of ktxkit", add_help=False)
    commands = root.add_subparsers(title="commands", parser_class=argparse.ArgumentParser)
    for parser in parsers:
        if parser.prog != GIT:
            command = _marked(parser)
            name, summary = command.name.removeprefix("git ktx "), command.summary.replace("%", "%%")
            commands.add_parser(name, help=summary, description=summary, add_help=False, parents=[parser])
    listers = "\n".join(LISTERS[shell].format(kind, lists) for kind, lists in LISTS.items())
    text = shtab.complete(root, shell, preamble=listers)
    return _with_own_names(shell, text, [parser.prog for parser in parsers if " " not in parser.prog])


def _with_own_names(shell: str, text: str, names: Sequence[str]) -> str:
    plain = [name for name in names if name != GIT]
    if shell == "zsh":  # the file is loaded for each of them, and knows by itself how
        text = text.replace(f"#compdef {GIT}", f"#compdef {' '.join(plain)} {GIT}", 1)
        text = text[: text.rindex("typeset -A opt_args")] + "typeset -A opt_args\n"
    if shell == "fish":
        return text + "\n".join(f"complete -c {name} --wraps '{GIT} {name}'" for name in plain) + "\n"
    return text + OTHERS[shell].format(git=GIT, function="_shtab_git_ktx", plain=" ".join(plain))


def _marked(parser: Parser) -> Command:
    """The command; each of its parser's options knows from now on what its values are."""
    import shtab

    from ktxkit.app.introspection import of, option_of

    own: dict[str, Any] = {
        kind: {"bash": f"_ktx_{kind}s", "zsh": f"_ktx_{kind}s", "fish": f"(__ktx_{kind}s)"} for kind in LISTS
    }
    completes = {**own, "directory": shtab.DIRECTORY, "file": shtab.FILE}
    for action in parser._actions:
        kind = option_of(action).completes
        if action.nargs != 0 and kind in completes:
            action.complete = completes[kind]  # type: ignore[attr-defined]
    return of(parser)
