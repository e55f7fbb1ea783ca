# SPDX-License-Identifier: MIT
# Half of the time in a signal handler, on an alternate stack, within Lua or C.
from caselib import has

MODES = ["off", "on"]
TEXT = r"\(\[string \".*\"\]:1\)$"


def check(c, p, t):
    inside = p.only(lambda s: "handler_burn" in s)
    c.least("in the handler", inside.total / max(1, p.total), 0.2)
    c.least("at main", p.part(lambda s: "main" in s), 0.95)

    def right(s):
        i = s.index("[signal]") if "[signal]" in s else len(s)
        return (s[i + 1:i + 2] == ("on_alrm",) and s.count("[signal]") == 1
                and "main" in s[:i] and not has(s[i:], TEXT))
    c.least("[signal] on_alrm, what it interrupted outside of it",
            inside.part(right), 0.98)
    c.zero("repeated frames", p.count(
        lambda s: any(a == b for a, b in zip(s, s[1:]))))
    for name in ("work", "c"):
        rx = rf"^{name} {TEXT}"
        c.least(f"{name} below the handler", inside.share(rx), 0.1)
        c.zero(f"{name} twice", p.count(
            lambda s: sum(has((f,), rx) for f in s) > 1))
    c.least("c > lua_busy", p.pair(rf"^c {TEXT}", "^lua_busy$"), 0.05)


W, C = (f'_start;main;lua_pcall;{n} ([string "function work() local s=0..."]:1)'
        for n in ("work", "c"))
IDEAL = (f"{W}_[N] 300\n{C};lua_busy_[C] 200\n"
         f"{W};[signal];on_alrm;handler_burn_[N] 300\n"
         f"{C};lua_busy;[signal];on_alrm;handler_burn_[C] 200\n")
TRUTH = {}
