"""The command line: inferdash ps, start, stop, logs -f, why …"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter

from inferdash.terminal import bench, boxes, canary, chat, commands, jobs, show, trial
from inferdash.terminal.api import TerminalError

_BASH = """\
_inferdash() {
  local word="${COMP_WORDS[COMP_CWORD]}"
  local servers="start stop restart logs why fit chat claim release"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "login logout ps $servers box boxes models images bench canary trial claims pull pulls profile completion" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = boxes ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "list add let-in refuse revoke" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = bench ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "run hours list show compare export stop" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = canary ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "run list show accept stop" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = trial ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "run list show keep back" -- "$word"))
  elif [[ " bench canary trial " = *" ${COMP_WORDS[1]} "* ]] && [ "$COMP_CWORD" -eq 3 ] && [[ " run list hours " = *" ${COMP_WORDS[2]} "* ]]; then
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" ps --names 2>/dev/null)" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = profile ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "list export import" -- "$word"))
  elif [ "${COMP_WORDS[1]}" = images ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "list newer pull move rm prune jobs cancel" -- "$word"))
  elif [ "$COMP_CWORD" -eq 2 ] && [[ " $servers " = *" ${COMP_WORDS[1]} "* ]]; then
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" ps --names 2>/dev/null)" -- "$word"))
  fi
}
complete -o default -F _inferdash inferdash inferdash.pyz
"""


def write_completion(args: Namespace) -> int:
    if args.shell == "zsh":
        sys.stdout.write("autoload -U +X bashcompinit && bashcompinit\n")
    sys.stdout.write(_BASH)
    return 0


_EPILOG = """\
exit codes: 0 done, 1 it failed or would fail, 2 a mistake in the command, 3 there is no such
thing, 4 the key is wrong or may not do that, 5 inferdash cannot be reached
"""


def parser() -> ArgumentParser:
    made = ArgumentParser(
        prog="inferdash",
        description="The servers, boxes and profiles of an inferdash, from a terminal.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    verbs = made.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    json = ArgumentParser(add_help=False)
    json.add_argument("--json", action="store_true", help="for programs")
    of_server = ArgumentParser(add_help=False)
    of_server.add_argument("server")

    one = verbs.add_parser("login", help="keep an address and a key; the key is asked for")
    one.add_argument("url", help="as in the browser: http://rtx8:8470")
    one.add_argument("--ca", metavar="FILE", help="its own authority, to be trusted there (ca.crt)")
    one.set_defaults(do=commands.login)
    verbs.add_parser("logout", help="forget them").set_defaults(do=commands.logout)

    one = verbs.add_parser("ps", help="what runs", parents=[json])
    one.add_argument("--names", action="store_true", help="only the servers’ names")
    one.set_defaults(do=commands.ps)

    claimed = ArgumentParser(add_help=False)
    claimed.add_argument(
        "--despite-claim", action="store_true", help="although somebody else has claimed it"
    )
    one = verbs.add_parser("start", help="start a server", parents=[of_server, claimed, json])
    one.add_argument("--wait", action="store_true", help="until it is ready or has failed")
    one.add_argument(
        "--queue", action="store_true", help="if its GPUs are taken, once they are free"
    )
    one.add_argument(
        "--any-box", action="store_true", help="SERVER is a profile; on any box that fits"
    )
    one.add_argument("--beside", action="store_true", help="although somebody is on its GPUs")
    one.add_argument("--despite", default="", metavar="REASON", help="although a check says no")
    one.set_defaults(do=commands.start)
    one = verbs.add_parser("stop", help="stop a server", parents=[of_server, claimed, json])
    one.add_argument("--wait", action="store_true", help="until it has stopped")
    one.add_argument("-y", "--yes", action="store_true", help="without a question")
    one.add_argument("--drain", action="store_true", help="after the running requests")
    one.set_defaults(do=commands.stop)
    one = verbs.add_parser(
        "restart", help="stop and start a server", parents=[of_server, claimed, json]
    )
    one.add_argument("--wait", action="store_true", help="until it is ready or has failed")
    one.set_defaults(do=commands.restart)

    one = verbs.add_parser("claim", help="claim a server or GPUs; others are told", parents=[json])
    one.add_argument("server", nargs="?", default="")
    one.add_argument("--gpus", default="", metavar="0,1", help="instead of a server")
    one.add_argument("--box", default="", help="of the GPUs, if there are several")
    one.add_argument(
        "--hours", type=float, default=4, metavar="N", help="from now; it ends by itself (4)"
    )
    one.add_argument("--note", default="", help="what it is for")
    one.set_defaults(do=commands.claim)
    one = verbs.add_parser("claims", help="what is claimed, by whom, until when", parents=[json])
    one.set_defaults(do=commands.claims)
    one = verbs.add_parser("release", help="end a claim", parents=[json])
    one.add_argument("what", help="the claimed server, or the claim’s number")
    one.set_defaults(do=commands.release)

    one = verbs.add_parser("logs", help="a server’s log", parents=[of_server, json])
    one.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    one.add_argument("-n", "--lines", type=int, default=100, help="the last so many (100)")
    one.add_argument("--all", action="store_true", help="from the first line on")
    one.add_argument("-t", "--timestamps", action="store_true")
    one.add_argument("--raw", action="store_true", help="with colours and all, for files")
    one.add_argument("--run", type=int, help="of this run instead of the newest")
    one.set_defaults(do=commands.logs)
    one = verbs.add_parser("why", help="why it failed", parents=[of_server, json])
    one.add_argument("--run", type=int, help="of this run instead of the newest")
    one.set_defaults(do=commands.why)
    one = verbs.add_parser("fit", help="would a start do?", parents=[of_server, json])
    one.set_defaults(do=commands.fit)

    one = verbs.add_parser("box", help="GPUs, and who holds their memory", parents=[json])
    one.add_argument("box", nargs="?", default="")
    one.set_defaults(do=commands.box)
    boxes.add_to(verbs.add_parser("boxes", help="which there are; one more, or one less"), json)
    one = verbs.add_parser("models", help="what lies on the disks", parents=[json])
    one.add_argument("box", nargs="?", default="")
    one.set_defaults(do=commands.models)

    one = verbs.add_parser("chat", help="ask a server, or talk with it", parents=[json])
    one.add_argument("server", nargs="?", default="", help="or its model; none: the only one")
    one.add_argument("text", nargs="*", help="one question; - is standard input")
    one.add_argument("--system", default="", metavar="TEXT", help="what it is told beforehand")
    one.add_argument("--temperature", type=float)
    one.add_argument("--max-tokens", type=int, metavar="N")
    one.add_argument("--no-reasoning", action="store_true", help="do not show how it thinks")
    one.set_defaults(do=chat.chat)

    one = verbs.add_parser("pull", help="download a model from the Hub", parents=[json])
    one.add_argument("model", help="Qwen/Qwen3-8B, org/name-GGUF:Q4_K_M, or its page’s address")
    one.add_argument("--revision", default="", help="a branch, tag or commit (main)")
    one.add_argument("--box", default="", help="where to, if there are several")
    one.add_argument(
        "--include", action="append", default=[], metavar="NAME", help="only such files: '*Q8_0*'"
    )
    one.add_argument("--into", default="", metavar="FOLDER", help="instead of its cache")
    one.add_argument("--limit", type=float, default=0, metavar="MIB", help="MiB/s at most")
    one.add_argument("--detach", action="store_true", help="do not wait for its end")
    one.set_defaults(do=jobs.pull_model)
    one = verbs.add_parser("pulls", help="downloads, and what to do with them", parents=[json])
    one.add_argument("action", nargs="?", choices=["pause", "resume", "cancel"])
    one.add_argument("id", nargs="?", type=int)
    one.add_argument("--delete-parts", action="store_true", help="of a cancelled one")
    one.set_defaults(do=jobs.show_pulls)

    _add_images(verbs.add_parser("images", help="in the boxes’ Docker"), json)

    _add_bench(verbs.add_parser("bench", help="measure a server, compare results"), json)

    _add_canary(verbs.add_parser("canary", help="check a server’s answers"), json)

    _add_trial(verbs.add_parser("trial", help="try an upgrade of a server, with a way back"), json)

    profile = verbs.add_parser("profile", help="list, export and import profiles")
    kinds = profile.add_subparsers(dest="kind", required=True, metavar="COMMAND")
    one = kinds.add_parser("list", parents=[json])
    one.add_argument("text", nargs="?", default="", help="only those with these words")
    one.set_defaults(do=commands.profile_list)
    one = kinds.add_parser("export", help="to standard output")
    one.add_argument("profile")
    one.add_argument("--form", choices=["yaml", "json", "docker", "compose"], default="yaml")
    one.set_defaults(do=commands.profile_export)
    one = kinds.add_parser("import", help="from YAML, JSON, docker run or compose", parents=[json])
    one.add_argument("file", help="- is standard input")
    one.add_argument("--into", metavar="PROFILE", help="as the next version of this one")
    one.add_argument("--name", default="", help="of a new one, instead of its own")
    one.add_argument("--box", default="", help="where a new one is placed")
    one.add_argument("--message", default="", help="what is new in it")
    one.set_defaults(do=commands.profile_import)

    one = verbs.add_parser("completion", help="a script that completes these commands")
    one.add_argument("shell", choices=["bash", "zsh"])
    one.set_defaults(do=write_completion)
    return made


def _add_bench(to: ArgumentParser, json: ArgumentParser) -> None:
    kinds = to.add_subparsers(dest="kind", required=True, metavar="COMMAND")
    of_result = ArgumentParser(add_help=False)
    of_result.add_argument("id", type=int, help="of the result, as in the list")

    one = kinds.add_parser("run", help="a check-up of a ready server", parents=[json])
    one.add_argument("server")
    one.add_argument(
        "--preset",
        default="quick",
        help="quick, normal, chat, context, crowd, grid, turns, or engine for its own program (quick)",
    )
    one.add_argument(
        "--prompts", type=numbers, help="tokens, such as 500,4000: points of your own (editors)"
    )
    one.add_argument("--output", type=int, default=128, help="tokens of an answer (128)")
    one.add_argument("--people", type=numbers, default=[], help="at once, such as 1,8")
    one.add_argument("--rates", type=numbers, default=[], help="requests a second instead: 0.5,2")
    one.add_argument("--rounds", type=int, default=3, help="of each point (3)")
    one.add_argument("--seconds", type=int, default=20, help="of a round (20)")
    one.add_argument(
        "--replay", metavar="HOUR", help="its requests once more, as `bench hours` says"
    )
    one.add_argument("--pace", type=int, choices=[1, 2, 4, 10], default=1, help="of a replay")
    one.add_argument("--random", action="store_true", help="a replay’s moments of arrival")
    one.add_argument("--detach", action="store_true", help="do not wait for its end")
    one.add_argument(
        "--insist", action="store_true", help="do not give way to people’s requests (editors)"
    )
    one.set_defaults(do=bench.run)
    one = kinds.add_parser("hours", help="whose requests can be replayed", parents=[json])
    one.add_argument("server")
    one.set_defaults(do=bench.list_hours)
    one = kinds.add_parser("list", help="the newest results", parents=[json])
    one.add_argument("server", nargs="?", default="")
    one.set_defaults(do=bench.list_results)
    one = kinds.add_parser("show", help="one result", parents=[of_result, json])
    one.set_defaults(do=bench.show_result)
    one = kinds.add_parser("compare", help="others with the first", parents=[json])
    one.add_argument("before", type=int)
    one.add_argument("after", type=int, nargs="+")
    one.set_defaults(do=bench.compare)
    one = kinds.add_parser("export", help="to standard output", parents=[of_result])
    one.add_argument("--form", choices=["json", "csv", "markdown", "svg", "card"], default="json")
    one.set_defaults(do=bench.export)
    one = kinds.add_parser("stop", help="end a check-up", parents=[of_result, json])
    one.set_defaults(do=bench.stop)


def _add_canary(to: ArgumentParser, json: ArgumentParser) -> None:
    kinds = to.add_subparsers(dest="kind", required=True, metavar="COMMAND")
    of_canary = ArgumentParser(add_help=False)
    of_canary.add_argument("id", type=int, help="as in the list")

    one = kinds.add_parser(
        "run", help="ask a ready server; fails if it answers wrongly", parents=[json]
    )
    one.add_argument("server")
    one.add_argument("--set", choices=["quick", "full"], default="quick")
    one.add_argument(
        "--insist", action="store_true", help="do not give way to people’s requests (editors)"
    )
    one.add_argument("--detach", action="store_true", help="do not wait for its end")
    one.set_defaults(do=canary.run)
    one = kinds.add_parser("list", help="the newest canaries", parents=[json])
    one.add_argument("server", nargs="?", default="")
    one.set_defaults(do=canary.list_canaries)
    one = kinds.add_parser("show", help="one, item by item", parents=[of_canary, json])
    one.set_defaults(do=canary.show_canary)
    one = kinds.add_parser(
        "accept", help="its answers are right from now on", parents=[of_canary, json]
    )
    one.set_defaults(do=canary.accept)
    one = kinds.add_parser("stop", help="end one", parents=[of_canary, json])
    one.set_defaults(do=canary.stop)


def _add_trial(to: ArgumentParser, json: ArgumentParser) -> None:
    kinds = to.add_subparsers(dest="kind", required=True, metavar="COMMAND")
    of_trial = ArgumentParser(add_help=False)
    of_trial.add_argument("id", type=int, help="as in the list")

    one = kinds.add_parser(
        "run",
        help="what would start next against what runs; fails unless it is kept",
        parents=[json],
    )
    one.add_argument("server")
    one.add_argument(
        "--when",
        choices=["now", "idle", "tonight"],
        default="now",
        help="idle: once nobody has used it for 15 minutes; tonight: the same, from 2:00 (now)",
    )
    one.add_argument("--twice", action="store_true", help="load each twice, in turns")
    one.add_argument("--detach", action="store_true", help="do not wait for its end")
    one.set_defaults(do=trial.run)
    one = kinds.add_parser("list", help="the newest trials", parents=[json])
    one.add_argument("server", nargs="?", default="")
    one.set_defaults(do=trial.list_trials)
    one = kinds.add_parser("show", help="how far one is", parents=[of_trial, json])
    one.set_defaults(do=trial.show_trial)
    one = kinds.add_parser("keep", help="end it, with what was loaded", parents=[of_trial, json])
    one.set_defaults(do=trial.keep)
    one = kinds.add_parser("back", help="end it, with what ran before", parents=[of_trial, json])
    one.add_argument("--detach", action="store_true", help="do not wait for its end")
    one.set_defaults(do=trial.go_back)


def numbers(text: str) -> list[float]:
    """Raises ValueError."""
    found = [float(each) for each in text.split(",") if each.strip()]
    return [int(each) if each.is_integer() else each for each in found]


def _add_images(to: ArgumentParser, json: ArgumentParser) -> None:
    kinds = to.add_subparsers(dest="kind", required=True, metavar="COMMAND")
    of_box = ArgumentParser(add_help=False)
    of_box.add_argument("--box", default="", help="if there are several")

    one = kinds.add_parser("list", help="what lies there", parents=[of_box, json])
    one.add_argument("--all", action="store_true", help="also those without an engine")
    one.set_defaults(do=jobs.list_images)
    one = kinds.add_parser("newer", help="newer builds elsewhere", parents=[of_box, json])
    one.add_argument("--ask", action="store_true", help="have the registries asked now")
    one.set_defaults(do=jobs.list_newer)
    one = kinds.add_parser("pull", help="with a bar", parents=[of_box, json])
    one.add_argument("image")
    one.add_argument("--newer", action="store_true", help="its newer build, beside it")
    one.add_argument("--despite", action="store_true", help="although something speaks against it")
    one.add_argument("--detach", action="store_true", help="do not wait for its end")
    one.set_defaults(do=jobs.pull_image)
    one = kinds.add_parser("move", help="a tag to its newer build", parents=[of_box, json])
    one.add_argument("image")
    one.add_argument("--back", action="store_true", help="to what it meant before")
    one.set_defaults(do=jobs.move_tag)
    one = kinds.add_parser("rm", help="remove what nobody needs", parents=[of_box, json])
    one.add_argument("image", nargs="+", help="a name or an id")
    one.set_defaults(do=jobs.remove_images)
    one = kinds.add_parser("prune", help="remove all that nobody needs", parents=[of_box, json])
    one.add_argument("--all", action="store_true", help="also what others have brought")
    one.add_argument("--yes", action="store_true", help="do not ask")
    one.set_defaults(do=jobs.prune_images)
    kinds.add_parser("jobs", help="what goes on", parents=[json]).set_defaults(do=jobs.list_jobs)
    one = kinds.add_parser("cancel", help="end a pull, build or removal", parents=[json])
    one.add_argument("id", type=int)
    one.set_defaults(do=jobs.cancel_job)


def _read(words: list[str] | None) -> Namespace:
    made = parser()
    args, others = made.parse_known_args(words)
    if args.verb == "chat" and not any(each.startswith("-") for each in others):
        # argparse takes a text only in one piece with the server: `chat qwen --max-tokens 9 Hello`.
        args.text += others
    elif others:
        made.error(f"unrecognized arguments: {' '.join(others)}")
    return args


def main(words: list[str] | None = None) -> int:
    args = _read(words)
    try:
        code: int = args.do(args)
        sys.stdout.flush()
    except TerminalError as problem:
        show.aside(f"{problem}\n")
        if problem.advice:
            show.aside(f"{problem.advice}\n")
        return problem.code
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    except BrokenPipeError:
        # Whoever read has seen enough: `inferdash logs … | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
