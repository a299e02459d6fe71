"""A shell's words, told apart without running anything: quotes, variables, operators, here-docs.

More forgiving than a shell where pastes are: a backslash may be followed by blanks or a comment,
^ and ` continue a line too, typographic quotes are quotes, <placeholders> are words.
"""

import re
from collections.abc import Callable

from servers.launch.commandline import tokens
from servers.launch.commandline.tokens import (
    ArrayAssignment,
    HereDocument,
    Operator,
    Piece,
    ShellError,
    Substitution,
    Text,
    Token,
    Variable,
    Word,
)

END = "\0"  # ends whatever is open: a Markdown fence, a part that is not shell
_DOUBLE = '"“”„‟«»'
_SINGLE = "'‘’‚‛"
_PLAIN = str.maketrans(dict.fromkeys(_DOUBLE, '"'))  # JSON knows no typographic quotes
_BLANKS = " \t"
_OPERATORS = ("&&", "||", ";;", "|&", ";", "|", "&", "(", ")")
_REDIRECT = re.compile(r"(?:\d*|&)(?:<<-?|>>|>\||<>|[<>]&?)")
_POWERSHELL_NAME = re.compile(r"env:[A-Za-z_]\w*")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?]")
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=\(")
_COMMENTED_LINES = re.compile(r"(?:[ \t]*(?:#[^\n\0]*)?\n)*[ \t]*")
_LOST_END = re.compile(r"(?<=\s)\\(?=\s+-)")
_CONTINUATION = re.compile(r"[ \t]*(?:#[^\n\0]*)?\n")


GoesOn = Callable[[list[Token], int, bool], int | None]


def _stops_at_line_end(tokens: list[Token], offset: int, escaped: bool) -> int | None:
    return offset if escaped else None


class Lexer:
    """Reads one logical line at a time from a text.

    `goes_on` is asked at each line end, told whether a backslash stands before it, and returns
    where the command goes on or None.
    """

    def __init__(self, text: str, goes_on: GoesOn = _stops_at_line_end) -> None:
        self.text = text
        self.at = 0
        self._goes_on = goes_on
        self._tokens: list[Token] = []
        self._here: list[tuple[str, bool]] = []

    def line(self, offset: int) -> tuple[list[Token], int]:
        """The tokens of the logical line at `offset`, and where the next line begins.

        Raises ShellError for a quotation mark or bracket that is never closed.
        """
        self.at = offset
        self._tokens = []
        while True:
            self._skip_blanks()
            char = self._char()
            if char in ("", END):
                return self._tokens, self.at + 1
            if char == "\n":
                if self._here:
                    self.at += 1
                    self._read_here_documents()
                    return self._tokens, self.at
                following = self._goes_on(self._tokens, self.at + 1, False)
                if following is None:
                    return self._tokens, self.at + 1
                self.at = following
            elif self._at_continuation():
                self.at += 2 if self.text.startswith("\\\\", self.at) else 1
                match = _CONTINUATION.match(self.text, self.at)
                if match is None or _LOST_END.search(match[0]):
                    continue  # the text's end, or a backslash whose line end was lost
                following = self._goes_on(self._tokens, match.end(), True)
                if following is None:
                    return self._tokens, match.end()
                self.at = following
            else:
                self._token(char)

    def _token(self, char: str) -> None:
        tokens.spend_step()
        start = self.at
        if char == "#" or tokens.escape_arrow(self.text, start):
            self.at = self._line_end()
            if lost := _LOST_END.search(self.text, start, self.at):
                self.at = lost.start()  # where a web page lost the line's end
                return
            # A comment that itself ends in a backslash means to go on.
            if self.text[start : self.at].rstrip().endswith("\\"):
                following = self._goes_on(self._tokens, self.at + 1, True)
                self.at = self.at if following is None else following
            return
        if (comment := tokens.quoted_comment(self.text, start)) is not None:
            self.at = comment.end()
            return
        redirect = (
            None
            if tokens.escape_placeholder(self.text, start)
            else _REDIRECT.match(self.text, start)
        )
        if redirect is not None:
            self._redirect(redirect)
            return
        for operator in _OPERATORS:
            if self.text.startswith(operator, start):
                self.at += len(operator)
                self._tokens.append(Operator(text=operator, offset=start))
                return
        array = _ARRAY.match(self.text, start)
        self._tokens.append(self._array(array) if array else self._word())

    def _redirect(self, match: re.Match[str]) -> None:
        self.at = match.end()
        kind = match[0].lstrip("0123456789&")
        if self.text.startswith("<", self.at) and kind == "<<":
            self.at += 1  # <<< "text": one word follows, no document
            kind = "<<<"
        self._skip_blanks()
        if self._char() in ("", "\n", END):
            return
        if self._char() == "(":  # >(tee log)
            self._until_closing(self.at + 1, "(", ")")
            return
        target = self._word()
        if kind in ("<<", "<<-"):
            end = "".join(piece.text for piece in target.pieces if isinstance(piece, Text))
            is_literal = any(isinstance(p, Text) and p.quoted for p in target.pieces)
            self._here.append((end, is_literal))

    def _read_here_documents(self) -> None:
        for end, is_literal in self._here:
            start = self.at
            tokens.spend_step(1 + (len(self.text) - start) // 16)
            closing = re.compile(rf"^[ \t]*{re.escape(end)}[ \t]*$", re.MULTILINE)
            if closing.search(self.text, start) is None:
                reason = f"the text that begins here is never ended by a line “{end}”."
                raise ShellError(reason, start)
            while True:
                stop = self._line_end()
                line = self.text[self.at : stop]
                if line.strip(_BLANKS) == end:
                    body = self.text[start : self.at]
                    self._tokens.append(
                        HereDocument(body=body, is_literal=is_literal, offset=start)
                    )
                    self.at = stop + 1
                    break
                self.at = stop + 1
        self._here = []

    def _array(self, match: re.Match[str]) -> ArrayAssignment:
        start = self.at
        self.at = match.end()
        words: list[Word] = []
        while True:
            self.at = _COMMENTED_LINES.match(self.text, self.at).end()  # type: ignore[union-attr]
            char = self._char()
            if char in ("", END):
                raise ShellError("this bracket is never closed.", match.end() - 1)
            if char == ")":
                self.at += 1
                break
            if self._at_continuation():
                self.at += 1
            elif char in "&;|":
                raise ShellError(f"“{char}” cannot stand in a list of words.", self.at)
            else:
                words.append(self._word())
        name = match[0].rstrip("(=+")
        return ArrayAssignment(name=name, adds="+=" in match[0], words=tuple(words), offset=start)

    def _word(self) -> Word:
        start = self.at
        pieces: list[Piece] = []
        while (char := self._char()) and char not in " \t\n" + END:
            if char in _DOUBLE:
                pieces += self._double(char)
            elif char in _SINGLE:
                pieces.append(self._single(char))
            elif char == "$":
                pieces += self._dollar(quoted=False)
            elif char == "`":
                if self._at_continuation():
                    break
                pieces.append(self._read_backquoted())
            elif char == "\\":
                if self._at_continuation():
                    break  # a shell would glue the next line to this word; nobody means that
                if tokens.in_windows_path(self.text, start, self.at):
                    pieces.append(Text(text="\\", quoted=False))
                    self.at += 1
                    continue
                self.at += 1
                pieces.append(Text(text=self._char(), quoted=True))
                self.at += 1
            elif (percent := tokens.percent_name(self.text, self.at)) is not None:
                pieces.append(Variable(raw=percent[0], name=percent[1], quoted=False))
                self.at = percent.end()
            elif (placeholder := tokens.escape_placeholder(self.text, self.at)) is not None:
                pieces.append(Text(text=placeholder[0], quoted=False))
                self.at = placeholder.end()
            elif char in "<>&|;()":
                if self.at == start:
                    raise ShellError(f"“{char}” cannot be understood here.", start)
                break
            else:
                pieces.append(Text(text=char, quoted=False))
                self.at += 1
        tokens.spend_step(1 + len(pieces))
        return Word(pieces=tuple(_join_pieces(pieces)), offset=start, end=self.at)

    def _double(self, opener: str) -> list[Piece]:
        start = self.at
        closers = '"' if opener == '"' else _DOUBLE
        self.at += 1
        pieces: list[Piece] = [Text(text="", quoted=True)]
        while (char := self._char()) not in ("", END):
            if char in closers:
                self.at += 1
                return pieces
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in tuple('$`"\\'):
                pieces.append(Text(text=self.text[self.at + 1], quoted=True))
                self.at += 2
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "$":
                pieces += self._dollar(quoted=True)
            elif char == "`":
                pieces.append(self._read_backquoted())
            elif (percent := tokens.percent_name(self.text, self.at)) is not None:
                pieces.append(Variable(raw=percent[0], name=percent[1], quoted=True))
                self.at = percent.end()
            else:
                pieces.append(Text(text=char, quoted=True))
                self.at += 1
        raise ShellError("this quotation mark is never closed.", start)

    def _single(self, opener: str) -> Text:
        start = self.at
        closers = "'" if opener == "'" else _SINGLE
        stop = start + 1
        while stop < len(self.text) and self.text[stop] not in closers + END:
            stop += 1
        if self.text[stop : stop + 1] in ("", END):
            raise ShellError("this quotation mark is never closed.", start)
        self.at = stop + 1
        text = self.text[start + 1 : stop]
        return Text(text=text.translate(_PLAIN) if text.lstrip()[:1] in "{[" else text, quoted=True)

    def _read_backquoted(self) -> Substitution:
        start = self.at
        stop = self.text.find("`", start + 1)
        if stop < 0:
            raise ShellError("this backtick is never closed.", start)
        self.at = stop + 1
        return Substitution(raw=self.text[start : self.at])

    def _dollar(self, *, quoted: bool) -> list[Piece]:
        start = self.at
        following = self.text[start + 1 : start + 2]
        if following == "(":
            self._until_closing(start + 2, "(", ")")
            return [Substitution(raw=self.text[start : self.at])]
        if following == "{":
            self._until_closing(start + 2, "{", "}")
            return [self._read_braced(start, quoted)]
        if following == "'" and not quoted:
            return [self._ansi_c()]
        if following == '"' and not quoted:
            self.at += 1
            return self._double('"')
        match = _POWERSHELL_NAME.match(self.text, start + 1)
        match = match or _NAME.match(self.text, start + 1)
        if match is None:
            self.at += 1
            return [Text(text="$", quoted=quoted)]
        self.at = match.end()
        name = match[0].removeprefix("env:")
        return [Variable(raw=self.text[start : self.at], name=name, quoted=quoted)]

    def _ansi_c(self) -> Text:
        """$'text', in which \\n is a line end."""
        found = tokens.ansi_c(self.text, self.at)
        if found is None:
            raise ShellError("this quotation mark is never closed.", self.at + 1)
        text, self.at = found
        return Text(text=text, quoted=True)

    def _read_braced(self, start: int, quoted: bool) -> Variable:
        inside = self.text[start + 2 : self.at - 1]
        match = re.fullmatch(
            r"([!#]?(?:env:)?(?:\w+|[@*]))(\[[^\]]*\])?(?:(:?[-=?+]|##?|%%?|//?|:|\^\^?|,,?)(.*))?",
            inside,
            re.DOTALL,
        )
        if match is None:
            return self._foreign(start, inside, quoted)
        inner = Lexer(match[4] or "")
        pieces = inner._braced_argument() if match[3] in (":-", "-", ":=", "=", ":+", "+") else ()
        if match[3] in ("#", "##", "%", "%%", "/", "//"):
            pieces = (Text(text=match[4], quoted=True),)
        return Variable(
            raw=self.text[start : self.at],
            name=match[1].removeprefix("env:"),
            index=(match[2] or "")[1:-1],
            operator=match[3] or "",
            argument=tuple(_join_pieces(list(pieces))),
            quoted=quoted,
        )

    def _foreign(self, start: int, inside: str, quoted: bool) -> Variable:
        """A variable of something that writes the command: ${var.count}, ${{ secrets.KEY }}."""
        name = inside.strip("{} \t")
        if not name or not re.fullmatch(r"[\w.\-\[\]|&='\" ]{1,120}", name):
            raise ShellError(f"“${{{inside}}}” cannot be understood.", start)
        return Variable(raw=self.text[start : self.at], name=name, quoted=quoted)

    def _braced_argument(self) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        while char := self._char():
            if char in _DOUBLE:
                pieces += self._double(char)
            elif char in _SINGLE:
                pieces.append(self._single(char))
            elif char == "$":
                pieces += self._dollar(quoted=False)
            else:
                pieces.append(Text(text=char, quoted=False))
                self.at += 1
        return tuple(pieces)

    def interpolation(self) -> list[Piece]:
        """The whole text as if it stood in double quotes, where only variables mean something."""
        pieces: list[Piece] = []
        tokens.spend_step(1 + len(self.text))
        while char := self._char():
            if char == "$" and self.text[self.at + 1 : self.at + 2] != "(":
                pieces += self._dollar(quoted=True)
            else:
                pieces.append(Text(text=char, quoted=True))
                self.at += 1
        return _join_pieces(pieces)

    def _until_closing(self, offset: int, opener: str, closer: str) -> None:
        depth = 1
        for position in range(offset, len(self.text)):
            char = self.text[position]
            depth += (char == opener) - (char == closer)
            if depth == 0:
                self.at = position + 1
                tokens.spend_step(1 + (position - offset) // 8)
                return
            if char == END:
                break
        tokens.spend_step(1 + (len(self.text) - offset) // 8)
        raise ShellError("this bracket is never closed.", offset - 1)

    def _at_continuation(self) -> bool:
        """At a backslash, ^ or ` that ends the line, or a backslash left over from a lost one."""
        char = self._char()
        if char not in "\\^`" or not char:
            return False
        rest = self.text[self.at + 1 : self._line_end()]
        before = self.text[self.at - 1 : self.at]
        if char == "\\":
            if rest.strip(_BLANKS) == "\\" and before in (" ", "\t", "\n", ""):
                return True  # doubled, as it stands inside a text of another language
            ends = not rest.strip(_BLANKS) or rest.lstrip(_BLANKS).startswith("#")
            lost_newline = rest[:1] in (" ", "\t") and before in ("", " ", "\t", "\n")
            return (ends and rest[:1] != "#") or lost_newline
        return not rest.strip(_BLANKS) and before in (" ", "\t")

    def _skip_blanks(self) -> None:
        while self._char() and self._char() in _BLANKS:
            self.at += 1

    def _char(self) -> str:
        return self.text[self.at : self.at + 1]

    def _line_end(self) -> int:
        stop = self.text.find("\n", self.at)
        return len(self.text) if stop < 0 else stop


def _join_pieces(pieces: list[Piece]) -> list[Piece]:
    """Neighbouring texts of the same quoting as one piece."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if isinstance(piece, Text) and isinstance(last, Text) and piece.quoted == last.quoted:
            found[-1] = Text(text=last.text + piece.text, quoted=piece.quoted)
        else:
            found.append(piece)
    return found
