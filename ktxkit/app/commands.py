"""The list of commands, read from the installed distribution: pyproject.toml is its only source.

Every command as data, read from its parser: the parsers are the only source of completions and man pages.

Completions for bash, zsh and fish, which shtab writes from the parsers when ktxkit is built.

Job ids and unit keys are read from the store at the moment they are asked for.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from ktxkit import __version__
from ktxkit.app import git_ktx
from ktxkit.app.cli import Parser, Result, columns
from ktxkit.app.rules import help_text
from ktxkit.app.rules.help_text import CommandHelp, Option, summary_of
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest

Main = Callable[[Sequence[str] | None], int]


def scripts() -> dict[str, str]:
    """Console script name to module name, sorted. Raises CannotRun where ktxkit is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        entries = distribution("ktxkit").entry_points.select(group="console_scripts")
    except PackageNotFoundError as error:
        raise CannotRun("ktxkit is not installed", hint="pip install . in a clone, or `make demo` there") from error
    return {entry.name: f"ktx_{entry.attr}" for entry in sorted(entries, key=lambda entry: entry.name)}


GROUPS: dict[str, tuple[str, ...]] = {  # every command once; subcommands of `git ktx` by their own names
    "every day": ("run", "list", "status", "land", "attic", "clean", "doctor", "init"),
    "work": ("worktree-open", "worktree-close", "worktree-status", "worktree-watch", "shell-init"),
    "land": ("job-run", "patch-collect", "patch-apply", "job-preview", "job-verify", "job-land"),
    "look": ("job-report", "help", "man"),
    "tests": ("test-run", "test-select", "ledger-query", "ledger-append"),
    "knowledge": ("ingest-run", "gate-check"),
    "plumbing": ("prune", "trace-append", "install-hooks", "uninstall-hooks", "completions"),
}


def grouped_rows() -> list[tuple[str, list[tuple[str, str]]]]:
    """Each group with its commands, as they are typed, and the first lines of their help. Nothing is imported."""
    own = git_ktx.names()
    return [(group, [_row(name, name in own) for name in members]) for group, members in GROUPS.items()]


def _row(name: str, own: bool) -> tuple[str, str]:
    if own:
        return f"git ktx {name}", git_ktx.summary(name)
    return name, _summary(f"ktx_{name.replace('-', '_')}")


MORE = "`git ktx help COMMAND` says more of each, `git ktx help pages` lists the documentation"


def grouped() -> Result:
    """The answer of `git ktx` and of `git ktx help`: every command, in groups."""
    groups = grouped_rows()
    wide = max(len(term) for _, rows in groups for term, _ in rows)
    lines: list[str] = []
    for group, rows in groups:
        padded = tuple((f"{term:<{wide}}", text) for term, text in rows)
        lines += [group, *help_text.table(padded, columns()), ""]
    named = [{"name": name, "summary": text, "group": group} for group, found in groups for name, text in found]
    return Result(
        lines=lines[:-1],
        notes=[MORE],
        data={"commands": named},
    )


def grouped_doc(doc: str) -> str:
    """A docstring with the commands in groups behind its first line, as tables."""
    first, _, rest = doc.partition("\n")
    tables = ("\n".join([group, *(f"  {term}   {text}" for term, text in rows)]) for group, rows in grouped_rows())
    return "\n\n".join([first, *tables]) + "\n\n" + rest.lstrip("\n")


def _summary(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return "(not installed)"
    return summary_of(Path(spec.origin).read_text("utf-8"))


def load(name: str, others: Sequence[str] = ()) -> Main:
    """The `main` of a command. Raises CannotRun where there is none of that name (`others` may have been meant)."""
    known = scripts()
    if name not in known or name == "git-ktx":
        near = nearest(name, [*others, *(other for other in known if other != "git-ktx")])
        hint = f"did you mean {' or '.join(near)}?" if near else "`git ktx` lists the commands"
        raise CannotRun(f"no command named {name!r}", hint=hint)
    return cast(Main, importlib.import_module(known[name]).main)


def all_commands() -> list[CommandHelp]:
    """Every installed command, then the subcommands of `git ktx` (named `git ktx status`)."""
    return [of(parser) for parser in all_parsers(scripts().values())]


def all_parsers(modules: Iterable[str]) -> list[Parser]:
    """The parsers of these modules of commands, then those of the subcommands of `git ktx`."""
    found = [importlib.import_module(module).parser() for module in modules]
    return [*found, *(git_ktx.module(name).parser() for name in git_ktx.names())]


def man_pages(parsers: Iterable[Parser]) -> dict[str, str]:
    """The man page of each of these, by its name without the section."""
    commands = [of(parser) for parser in parsers]
    return {help_text.page_name(command): help_text.render_page(command, commands, __version__) for command in commands}


def help_texts(parsers: Iterable[Parser], width: int) -> str:
    """What `--help` of each of these prints, behind a NUL and its name: what `ktx_start` reads. `width`: columns."""
    texts = ""
    for parser in parsers:
        parser.width = width
        texts += f"\0{parser.prog}\n{parser.format_help()}"
    return texts


def of(parser: Parser) -> CommandHelp:
    """One parser as data."""
    options = [
        option_of(action, group.title or "options")
        for group in parser._action_groups
        for action in group._group_actions
        if action.help != argparse.SUPPRESS
    ]
    positionals = [option for option in options if not option.flags]
    return CommandHelp(
        parser.prog, parser.doc, tuple(positionals + [o for o in options if o.flags]), parser.takes_command
    )


def option_of(action: argparse.Action, group: str = "options") -> Option:
    """One option or positional argument as data."""
    takes = action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    choices = tuple(str(choice) for choice in action.choices or ())
    value = "|".join(choices) if choices and action.metavar is None else metavar
    return Option(
        flags=tuple(action.option_strings),
        value=value if takes else "",
        help=" ".join((action.help or "").replace("%%", "%").split()),
        choices=choices,
        many=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
        group=group,
    )


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


def _marked(parser: Parser) -> CommandHelp:
    """The command; each of its parser's options knows from now on what its values are."""
    import shtab

    own: dict[str, Any] = {
        kind: {"bash": f"_ktx_{kind}s", "zsh": f"_ktx_{kind}s", "fish": f"(__ktx_{kind}s)"} for kind in LISTS
    }
    completes = {**own, "directory": shtab.DIRECTORY, "file": shtab.FILE}
    for action in parser._actions:
        kind = option_of(action).completes
        if action.nargs != 0 and kind in completes:
            action.complete = completes[kind]  # type: ignore[attr-defined]
    return of(parser)
