# SPDX-License-Identifier: MIT
"""What a Lua source calls its functions, from the grammar alone.

functions(source) lists all functions in the order in which they end, which is
the order in which LuaJIT's parser finishes their prototypes:
(first line, name).  The name is '' where the source gives none: arguments,
return values, functions that are called at once, operands.

A name is the whole path: `M.sub.f`, `C:hit`, `t[3]`, `t[k]`.  An index that is
no path prints as `?`.  A table without a name (an argument, a call's result)
leaves the path from its first field on.

The whole grammar of LuaJIT 2.1 is parsed (Lua 5.1 with goto, labels and the
additions to numbers and escapes).
"""
import re

TOKEN = re.compile(
    rb"""(?P<space>[ \t\f\v]+)
    |(?P<line>\n)
    |(?P<comment>--\[(?P<c>=*)\[.*?\](?P=c)\]|--[^\n]*)
    |(?P<name>[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)
    |(?P<long>\[(?P<s>=*)\[.*?\](?P=s)\])
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<number>0[xX](?:[0-9A-Fa-f.]|[pP][+-]?)+[uUlLiI]*
       |(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[uUlLiI]*)
    |(?P<op>\.\.\.|\.\.|==|~=|<=|>=|::|[-+*/%^\#<>=(){}\[\];:,.])
    """,
    re.X | re.S,
)
KEYWORDS = set(
    b"and break do else elseif end false for function if in local nil not or "
    b"repeat return then true until while".split()
)
SIMPLE_ESCAPES = {
    ord("a"): 7, ord("b"): 8, ord("f"): 12, ord("n"): 10, ord("r"): 13,
    ord("t"): 9, ord("v"): 11,
}
BINARY = {
    b"or": (1, 1), b"and": (2, 2),
    b"<": (3, 3), b">": (3, 3), b"<=": (3, 3), b">=": (3, 3), b"~=": (3, 3),
    b"==": (3, 3), b"..": (5, 4), b"+": (6, 6), b"-": (6, 6), b"*": (7, 7),
    b"/": (7, 7), b"%": (7, 7), b"^": (10, 9),
}
UNARY = 8
BLOCK_END = {b"end", b"else", b"elseif", b"until", b""}


class Bad(Exception):
    pass


def tokens(src):
    if src.startswith(b"\xef\xbb\xbf"):
        src = src[3:]
    src = re.sub(rb"\r\n|\n\r|\r", b"\n", src)
    at = 0
    if src.startswith(b"#"):
        at = src.find(b"\n")
        at = len(src) if at < 0 else at
    out, line = [], 1
    while at < len(src):
        m = TOKEN.match(src, at)
        if not m:
            raise Bad("character %r in line %d" % (src[at:at + 1], line))
        text, kind = m.group(), m.lastgroup
        # lastgroup is the inner group for long brackets
        kind = {"c": "comment", "s": "long"}.get(kind, kind)
        if kind == "name" and text in KEYWORDS:
            kind = "op"
        if kind not in ("space", "line", "comment"):
            # a token's line is the one it ends in (lj_lex.c counts as it reads)
            out.append((kind, text, line + text.count(b"\n")))
        line += text.count(b"\n")
        at = m.end()
    out.append(("end", b"", line))
    return out


def string_value(kind, text):
    if kind == "long":
        body = text[text.index(b"[", 1) + 1:-(text.index(b"[", 1) + 1)]
        return re.sub(rb"\A\n", b"", body)
    body, out, i = text[1:-1], bytearray(), 0
    while i < len(body):
        c = body[i]
        i += 1
        if c != ord("\\"):
            out.append(c)
            continue
        c = body[i]
        i += 1
        digits = re.compile(rb"\d{1,3}").match(body, i - 1)
        if digits:
            out.append(int(digits.group()) & 255)
            i = digits.end()
        elif c == ord("x"):
            out.append(int(body[i:i + 2], 16))
            i += 2
        elif c == ord("u"):
            end = body.index(b"}", i)
            out += chr(int(body[i + 1:end], 16)).encode("utf-8", "surrogatepass")
            i = end + 1
        elif c == ord("z"):
            while i < len(body) and body[i:i + 1].isspace():
                i += 1
        else:
            out.append(SIMPLE_ESCAPES.get(c, c))
    return bytes(out)


def number_text(text):
    t = text.rstrip(b"uUlLiI").decode() if text[-1:] in b"uUlLiI" else text.decode()
    if len(t) != len(text):
        return None  # a 64 bit or complex literal is no plain number
    if t[:2] in ("0x", "0X"):
        v = float.fromhex(t)
    else:
        v = float(t)
    return number_of(v)


def number_of(v):
    if v == int(v) and abs(v) < 1e15:
        return b"%d" % int(v)
    return repr(v).encode()


def fold(op, a, b):
    """Constant arithmetic, as the parser folds it (lj_parse.c, foldarith)."""
    if a[0] != "num" or b[0] != "num":
        return ("other",)
    x, y = float(a[1]), float(b[1])
    try:
        v = {b"+": lambda: x + y, b"-": lambda: x - y, b"*": lambda: x * y,
             b"/": lambda: x / y, b"%": lambda: x % y,
             b"^": lambda: x ** y}[op]()
        return ("num", number_of(v))
    except (KeyError, ArithmeticError, ValueError, TypeError):
        return ("other",)


# Expressions, as far as names need them:
#   ("path", root, parts)  root: a name, or None for what has none;
#                          parts: (".", key) or ("[", text)
#   ("str", bytes) ("num", text) ("lit", text) ("call",) ("other",)
#   ("func", function) ("table", table) ("or", left, right) ("and", l, r)
#   ("meta", table expression): setmetatable(table, ...)
NOWHERE = ("path", None, [])


class Parser:
    def __init__(self, src):
        self.toks = tokens(src)
        self.i = 0
        self.found = []

    def peek(self, ahead=0):
        return self.toks[min(self.i + ahead, len(self.toks) - 1)]

    def is_(self, text):
        k = self.toks[self.i]
        return k[1] == text and k[0] in ("op", "end")

    def take(self):
        self.i += 1
        return self.toks[self.i - 1]

    def accept(self, text):
        if self.is_(text):
            self.i += 1
            return True
        return False

    def need(self, text):
        if not self.accept(text):
            raise Bad("line %d: %r where %r belongs"
                      % (self.peek()[2], self.peek()[1], text))

    def name(self):
        kind, text, line = self.take()
        if kind != "name":
            raise Bad("line %d: %r where a name belongs" % (line, text))
        return text

    # -- statements --
    # A function's line is the lexer's when parse_body is called: at the word
    # `function` of a statement, else at its parenthesis (lj_parse.c).

    def chunk(self):
        self.block()
        if self.peek()[0] != "end":
            raise Bad("line %d: %r" % (self.peek()[2], self.peek()[1]))
        return [(f["line"], f["name"]) for f in self.found]

    def block(self):
        while not (self.peek()[0] in ("op", "end")
                   and self.peek()[1] in BLOCK_END):
            if self.is_(b"return"):
                self.take()
                if not (self.peek()[1] in BLOCK_END or self.is_(b";")):
                    self.explist()
                self.accept(b";")
                return
            self.statement()
            self.accept(b";")

    def statement(self):
        kind, text, line = self.peek()
        if kind == "op":
            handler = getattr(self, "st_" + text.decode(), None) \
                if text.isalpha() else None
            if handler:
                self.take()
                return handler(line)
            if text == b"::":
                self.take()
                self.name()
                return self.need(b"::")
            if text == b";":
                return self.take()
        if kind == "name" and text == b"goto" and self.peek(1)[0] == "name":
            self.take()
            return self.name()
        self.expression_statement()

    def st_break(self, line):
        pass

    def st_do(self, line):
        self.block()
        self.need(b"end")

    def st_while(self, line):
        self.expr()
        self.need(b"do")
        self.st_do(line)

    def st_repeat(self, line):
        self.block()
        self.need(b"until")
        self.expr()

    def st_if(self, line):
        self.expr()
        self.need(b"then")
        self.block()
        while self.accept(b"elseif"):
            self.expr()
            self.need(b"then")
            self.block()
        if self.accept(b"else"):
            self.block()
        self.need(b"end")

    def st_for(self, line):
        self.name()
        if self.accept(b"="):
            self.explist()
        else:
            while self.accept(b","):
                self.name()
            self.need(b"in")
            self.explist()
        self.need(b"do")
        self.st_do(line)

    def st_function(self, line):
        text = self.name()
        while self.peek()[1] in (b".", b":") and self.peek()[0] == "op":
            text += self.take()[1] + self.name()
        self.body(line)["name"] = text

    def st_local(self, line):
        if self.accept(b"function"):
            text = self.name()
            self.body(self.peek()[2])["name"] = text
            return
        targets = [("path", self.name(), [])]
        while self.accept(b","):
            targets.append(("path", self.name(), []))
        if self.accept(b"="):
            self.assign(targets, self.explist())

    def expression_statement(self):
        targets = [self.suffixed()]
        while self.accept(b","):
            targets.append(self.suffixed())
        if self.is_(b"=") or len(targets) > 1:
            self.need(b"=")
            self.assign(targets, self.explist())

    # -- expressions --

    def explist(self):
        out = [self.expr()]
        while self.accept(b","):
            out.append(self.expr())
        return out

    def expr(self, limit=0):
        text = self.peek()[1] if self.peek()[0] == "op" else b""
        if text in (b"not", b"-", b"#"):
            self.take()
            left = self.expr(UNARY)
            if text == b"-" and left[0] == "num":
                v = float(left[1])
                left = ("num", number_of(-v))
            else:
                left = ("other",)
        else:
            left = self.simple()
        while True:
            kind, text, _ = self.peek()
            if kind != "op" or text not in BINARY or BINARY[text][0] <= limit:
                return left
            self.take()
            right = self.expr(BINARY[text][1])
            if text in (b"or", b"and"):
                left = (text.decode(), left, right)
            else:
                left = fold(text, left, right)

    def simple(self):
        kind, text, line = self.peek()
        if kind in ("string", "long"):
            self.take()
            return ("str", string_value(kind, text))
        if kind == "number":
            self.take()
            n = number_text(text)
            return ("num", n) if n is not None else ("other",)
        if kind == "op":
            if text in (b"true", b"false", b"nil"):
                self.take()
                return ("lit", text)
            if text == b"...":
                self.take()
                return ("other",)
            if text == b"{":
                return self.table()
            if text == b"function":
                self.take()
                return ("func", self.body(self.peek()[2]))
        return self.suffixed()

    def suffixed(self):
        if self.accept(b"("):
            e = self.expr()
            self.need(b")")
            if e[0] not in ("path", "func", "table", "or", "and", "meta"):
                e = ("other",)
        else:
            e = ("path", self.name(), [])
        while True:
            kind, text, _ = self.peek()
            if kind == "op" and text == b".":
                self.take()
                e = self.index(e, (".", self.name()))
            elif kind == "op" and text == b"[":
                self.take()
                key = self.key(self.expr())
                self.need(b"]")
                e = self.index(e, key)
            elif kind == "op" and text == b":":
                self.take()
                self.name()
                self.args()
                e = ("call",)
            elif kind in ("string", "long") or text in (b"(", b"{"):
                args = self.args()
                meta = e == ("path", b"setmetatable", []) and args
                e = ("meta", args[0]) if meta else ("call",)
            else:
                return e

    def index(self, e, part):
        if e[0] == "path":
            return ("path", e[1], e[2] + [part])
        return ("path", None, [part])

    def key(self, e):
        if e[0] == "str":
            return (".", e[1])
        if e[0] == "num":
            return ("[", e[1])
        if e[0] == "path" and e[1] is not None:
            return ("[", self.text(e))
        return ("[", b"?")

    def args(self):
        kind, text, _ = self.peek()
        if kind in ("string", "long"):
            self.take()
            return []
        if self.is_(b"{"):
            return [self.table()]
        self.need(b"(")
        if self.accept(b")"):
            return []
        out = self.explist()
        self.need(b")")
        return out

    def table(self):
        self.need(b"{")
        fields, items = [], 0
        while not self.is_(b"}"):
            if self.accept(b"["):
                key = self.key(self.expr())
                self.need(b"]")
                self.need(b"=")
            elif self.peek()[0] == "name" and self.peek(1)[1] == b"=" \
                    and self.peek(1)[0] == "op":
                key = (".", self.name())
                self.take()
            else:
                items += 1
                key = ("[", b"%d" % items)
            fields.append((key, self.expr()))
            if not (self.accept(b",") or self.accept(b";")):
                break
        self.need(b"}")
        # wherever it goes: its fields have names of their own
        self.store(("table", fields), NOWHERE)
        return ("table", fields)

    def body(self, line):
        self.need(b"(")
        while not self.accept(b")"):
            if not self.accept(b"..."):
                self.name()
            self.accept(b",")
        f = {"line": line, "name": b""}
        self.block()
        self.need(b"end")
        self.found.append(f)
        return f

    # -- naming --

    @staticmethod
    def text(path):
        _, root, parts = path
        if root is None:
            # from the first field on: an index alone says nothing
            while parts and parts[0][0] == "[":
                parts = parts[1:]
            if not parts:
                return b""
            root, parts = parts[0][1], parts[1:]
        for kind, key in parts:
            root += b"." + key if kind == "." else b"[" + key + b"]"
        return root

    def assign(self, targets, values):
        for target, value in zip(targets, values):
            self.store(value, target)

    def store(self, value, target):
        if target[0] != "path":
            target = NOWHERE
        kind = value[0]
        if kind == "func":
            value[1]["name"] = self.text(target)
        elif kind == "table":
            for key, field in value[1]:
                self.store(field, ("path", target[1], target[2] + [key]))
        elif kind == "or":
            self.store(value[1], target)
            self.store(value[2], target)
        elif kind == "and":
            self.store(value[2], target)
        elif kind == "meta" and value[1][0] in ("table", "meta"):
            self.store(value[1], target)


def functions(src):
    return Parser(src).chunk()
