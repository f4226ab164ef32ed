"""Print a shell function that changes into a worktree: `ktx NAME` opens it where it is not open, and goes there.

`ktx` alone goes to the main checkout. On a failure it stays where it is, with the failure's status.

reads    nothing
writes   nothing: the shell evaluates what is printed
exits    0 printed, 2 no such shell
example  source <(git ktx shell-init bash)      # in ~/.bashrc, or ~/.zshrc with zsh
         git ktx shell-init fish | source       # in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit.app import cli

if TYPE_CHECKING:
    from ktxkit.store.world import World

POSIX = """\
ktx() {
  local place
  if [ $# -eq 0 ]; then
    place=$(git rev-parse --path-format=absolute --git-common-dir) || return
    place=${place%/.git}
  else
    place=$(worktree-open "$@") || return
  fi
  cd -- "$place"
}
"""
FISH = """\
function ktx --description 'Go to a worktree; open it where it is not open'
  if test (count $argv) -eq 0
    set -l place (git rev-parse --path-format=absolute --git-common-dir); or return
    cd -- (string replace -r '/\\.git$' '' -- $place)
  else
    set -l place (worktree-open $argv); or return
    cd -- $place
  end
end
"""
FUNCTIONS = {"bash": POSIX, "zsh": POSIX, "fish": FISH}


def parser() -> cli.Parser:
    made = cli.Parser("git ktx shell-init", __doc__)
    made.add_argument("shell", choices=tuple(FUNCTIONS), help="for which shell")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    text = FUNCTIONS[args.shell]
    return cli.Result(raw=text.encode("ascii"), data={"function": text})
