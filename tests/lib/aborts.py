# SPDX-License-Identifier: MIT
"""Tables of trace aborts, read without any code of the product.

aborts.py FILE lint              strict RFC 4180, the header, the order
aborts.py FILE book TARGET.out   against a target's lines
                                 `truth abort N<tab>severity<tab>reason<tab>location<tab>zone`
aborts.py FILE cell COLUMN [COLUMN=REGEX...]   of the rows that match
aborts.py FILE sum [COLUMN=REGEX...]           of their counts
"""
import csv
import io
import re
import sys

HEAD = ["severity", "count", "reason", "location", "zone"]
MORE = {"cpu_percent", "state", "source"}
RANK = {"blacklist": 0, "warn": 1, "info": 2}
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Table:
    def __init__(self, raw):
        self.raw = raw
        text = raw.decode("utf-8")
        records = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        self.head, records = (records or [[]])[0], records[1:]
        self.records = records
        self.rows = [dict(zip(self.head, r)) for r in records]

    @classmethod
    def read(cls, path):
        with open(path, "rb") as f:
            return cls(f.read())

    def lint(self):
        bad = []
        if self.head[:5] != HEAD or set(self.head[5:]) - MORE:
            bad.append(f"header {self.head}")
        if not self.raw.endswith(b"\r\n"):
            bad.append("the last record has no CRLF")
        if self.raw.count(b"\n") != self.raw.count(b"\r\n") and \
                not re.search(rb'"[^"]*[^\r]\n', self.raw):
            bad.append("a record does not end in CRLF")
        for r in self.records:
            if len(r) != len(self.head):
                bad.append(f"{len(r)} fields: {r}")
            elif r[0] not in RANK:
                bad.append(f"severity {r[0]}")
            elif any(f.startswith(FORMULA) for f in r[2:5]):
                bad.append(f"a formula: {r}")
        keys = [(r["reason"], r["location"], r["zone"], r.get("source"))
                for r in self.rows]
        if len(set(keys)) != len(keys):
            bad.append("a row twice")
        return bad or self.order()

    def order(self):
        """The contract's, or with cpu_percent in front of the count."""
        def key(row, cost):
            count = int(row["count"] or 0)
            part = (-float(row["cpu_percent"]),) if cost else ()
            return (RANK[row["severity"]], *part, -count,
                    *(row[k].encode() for k in HEAD[2:]))
        for cost in (False, True) if "cpu_percent" in self.head else (False,):
            keys = [key(r, cost) for r in self.rows]
            if keys == sorted(keys):
                return []
        return ["order"]

    def select(self, tests):
        rows = self.rows
        for t in tests:
            column, rx = t.split("=", 1)
            rows = [r for r in rows if re.search(rx, r[column])]
        return rows


def plain(cell):
    """A cell without the apostrophe that keeps it from being a formula."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in FORMULA else cell


def book_of(path):
    with open(path, encoding="utf-8") as f:
        lines = [line[len("truth abort "):].rstrip("\n").split("\t")
                 for line in f if line.startswith("truth abort ")]
    return {tuple(rest): int(n) for n, *rest in lines}


def compare(table, book):
    have = {(r["severity"], plain(r["reason"]), plain(r["location"]),
             plain(r["zone"])): int(r["count"]) for r in table.rows}
    bad = [f"only in the book: {n} {k}" for k, n in book.items() if k not in have]
    bad += [f"only in the table: {n} {k}" for k, n in have.items() if k not in book]
    bad += [f"{have[k]}, not {n}: {k}" for k, n in book.items()
            if k in have and have[k] != n]
    return bad if book else ["an empty book"]


def main(argv):
    path, what, rest = argv[0], argv[1], argv[2:]
    table = Table.read(path)
    bad = []
    if what == "lint":
        bad = table.lint()
    elif what == "book":
        bad = compare(table, book_of(rest[0]))
    elif what == "cell":
        print("\n".join(r[rest[0]] for r in table.select(rest[1:])))
    elif what == "sum":
        print(sum(int(r["count"] or 0) for r in table.select(rest)))
    else:
        sys.exit(__doc__)
    if bad:
        print("\n".join(bad[:20]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
