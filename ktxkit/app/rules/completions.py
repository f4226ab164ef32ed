"""Completions for bash, zsh and fish. Job ids come from the store's directory, all else from the parsers."""

from __future__ import annotations

from collections.abc import Sequence

from ktxkit.app.rules.command_spec import Command, Option

JOBS = 'ls "$(git rev-parse --path-format=absolute --git-common-dir 2>/dev/null)/../.ktx/jobs" 2>/dev/null'
GIT = "git-ktx"
SHELLS = ("bash", "zsh", "fish")


def render(shell: str, commands: Sequence[Command]) -> str:
    """The whole completion script of one of SHELLS."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _own(commands: Sequence[Command]) -> list[tuple[str, Command]]:
    """The subcommands of `git ktx`: its own, and every other command by its name."""
    own = [(c.name.removeprefix("git ktx "), c) for c in commands if c.name.startswith("git ktx ")]
    return own + [(c.name, c) for c in commands if not c.name.startswith("git ktx ") and c.name != GIT]


def _plain(commands: Sequence[Command]) -> list[Command]:
    return [command for command in commands if " " not in command.name and command.name != GIT]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash_value(option: Option) -> str:
    kinds = {
        "choices": f'COMPREPLY=($(compgen -W {_quoted(" ".join(option.choices))} -- "$cur"))',
        "job": f'COMPREPLY=($(compgen -W "$({JOBS})" -- "$cur"))',
        "directory": 'compopt -o filenames; COMPREPLY=($(compgen -d -- "$cur"))',
        "file": 'compopt -o filenames; COMPREPLY=($(compgen -f -- "$cur"))',
        "": "COMPREPLY=()",
    }
    return kinds[option.completes]


def _bash_case(name: str, command: Command) -> str:
    values = [
        f"        {'|'.join(option.flags)}) {_bash_value(option)}; return ;;"
        for option in command.switches
        if option.value
    ]
    flags = " ".join(flag for option in command.switches for flag in option.flags)
    rest = _bash_value(command.positionals[0]) if command.positionals else "COMPREPLY=()"
    inner = "\n".join(["      case $prev in", *values, "      esac"]) if values else "      :"
    words = f'COMPREPLY=($(compgen -W {_quoted(flags)} -- "$cur"))'
    return f"""\
    {name})
{inner}
      if [[ $cur == -* ]]; then {words}
      else {rest}; fi ;;"""


def _bash(commands: Sequence[Command]) -> str:
    cases = "\n".join(_bash_case(name, command) for name, command in _own(commands))
    names = " ".join(name for name, _ in _own(commands))
    plain = " ".join(command.name for command in _plain(commands))
    return f"""\
# bash completion for ktxkit: source it, or write it to ~/.local/share/bash-completion/completions/.
_ktx_of() {{
  local cur=$1 prev=$2 i
  for ((i = 1; i < COMP_CWORD; i++)); do [[ ${{COMP_WORDS[i]}} == -- ]] && return; done
  case $3 in
{cases}
  esac
}}
_ktx() {{
  COMPREPLY=()
  _ktx_of "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}" "${{COMP_WORDS[0]##*/}}"
}}
_git_ktx() {{
  local i name=
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in ktx | -*) ;; *) name=${{COMP_WORDS[i]}}; break ;; esac
  done
  if [[ -n $name ]]; then _ktx_of "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}" "$name"
  else COMPREPLY=($(compgen -W {_quoted(names)} -- "${{COMP_WORDS[COMP_CWORD]}}")); fi
}}
complete -F _ktx {plain}
complete -F _git_ktx {GIT}
"""


def _zsh_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def _zsh_value(option: Option) -> str:
    kinds = {
        "choices": "(" + " ".join(option.choices) + ")",
        "job": "_ktx_jobs",
        "directory": "_files -/",
        "file": "_files",
        "": " ",
    }
    return f":{_zsh_text(option.value)}:{kinds[option.completes]}"


def _zsh_specs(command: Command) -> list[str]:
    found = []
    for option in command.switches:
        for flag in option.flags:
            star = "*" if option.many else ""
            value = _zsh_value(option) if option.value else ""
            found.append(_quoted(f"{star}{flag}[{_zsh_text(option.help)}]{value}"))
    found += [_quoted(f"*{_zsh_value(option)}") for option in command.positionals[:1]]
    return [*found, _quoted("*::command:_normal")] if command.takes_command and not command.positionals else found


def _zsh(commands: Sequence[Command]) -> str:
    cases = "\n".join(f"    {name}) _arguments {' '.join(_zsh_specs(command))} ;;" for name, command in _own(commands))
    names = " ".join(_quoted(f"{name}:{_zsh_text(command.summary)}") for name, command in _own(commands))
    plain = " ".join(command.name for command in _plain(commands))
    return f"""\
#compdef {plain} {GIT}
# zsh completion for ktxkit: source it after compinit, or write it to a directory in $fpath as _ktx.
_ktx_jobs() {{ local -a jobs; jobs=(${{(f)"$({JOBS})"}}); compadd -a jobs }}
_ktx_of() {{
  case $1 in
{cases}
  esac
}}
_ktx() {{ _ktx_of ${{service:-${{words[1]:t}}}} }}
_git-ktx() {{
  local -a names=({names})
  if (( CURRENT == 2 )); then _describe command names
  else shift words; (( CURRENT-- )); _ktx_of $words[1]; fi
}}
compdef _ktx {plain}
compdef _git-ktx {GIT}
"""


def _fish_value(option: Option) -> str:
    kinds = {
        "choices": f"-x -a {_quoted(' '.join(option.choices))}",
        "job": "-x -a '(__ktx_jobs)'",
        "directory": "-x -a '(__fish_complete_directories)'",
        "file": "-r -F",
        "": "-x",
    }
    return kinds[option.completes]


def _fish_flag(flag: str) -> str:
    kind = "-l" if flag.startswith("--") else "-s" if len(flag) == 2 else "-o"
    return f"{kind} {flag.lstrip('-')}"


def _fish_lines(where: str, command: Command) -> list[str]:
    lines = []
    for option in command.switches:
        value = f" {_fish_value(option)}" if option.value else ""
        flags = " ".join(_fish_flag(flag) for flag in option.flags)
        lines.append(f"complete {where} {flags}{value} -d {_quoted(option.help)}")
    for option in command.positionals[:1]:
        lines.append(f"complete {where} {_fish_value(option).replace('-r -F', '-F')}")
    return lines if command.positionals else [f"complete {where} -f", *lines]


def _fish(commands: Sequence[Command]) -> str:
    lines = [
        "# fish completion for ktxkit: write it to ~/.config/fish/completions/ktxkit.fish, or source it.",
        f"function __ktx_jobs; sh -c {_quoted(JOBS)}; end",
    ]
    for command in _plain(commands):
        lines += _fish_lines(f"-c {command.name}", command)
    own = _own(commands)
    names = " ".join(name for name, _ in own)
    lines.append(f"complete -c {GIT} -f -n 'not __fish_seen_subcommand_from {names}'")
    for name, command in own:
        first = f"-n 'not __fish_seen_subcommand_from {names}' -a {name} -d {_quoted(command.summary)}"
        lines.append(f"complete -c {GIT} {first}")
        lines += _fish_lines(f"-c {GIT} -n '__fish_seen_subcommand_from {name}'", command)
    return "\n".join(lines) + "\n"
