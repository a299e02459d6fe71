"""Scripts by which shells complete commands and the names of servers."""

from __future__ import annotations

import sys
from argparse import Namespace

_BASH = """\
_inferdash() {
  local word="${COMP_WORDS[COMP_CWORD]}"
  local servers="start stop restart logs why fit chat"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "login logout ps $servers box models images bench pull pulls profile completion" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = profile ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "list export import" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = bench ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "run list show compare export stop" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = images ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "list newer pull move rm prune jobs cancel" -- "$word"))
  elif [ "$COMP_CWORD" -eq 2 ] && [[ " $servers " = *" ${COMP_WORDS[1]} "* ]]; then
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" ps --names 2>/dev/null)" -- "$word"))
  fi
}
complete -o default -F _inferdash inferdash inferdash.pyz
"""


def write(args: Namespace) -> int:
    if args.shell == "zsh":
        sys.stdout.write("autoload -U +X bashcompinit && bashcompinit\n")
    sys.stdout.write(_BASH)
    return 0
