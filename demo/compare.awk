# SPDX-License-Identifier: MIT
# usage: awk -f compare.awk [-v most=POINTS] TRUTH FOLDED
# The demo game's own account of its zones beside what a profile says.  With
# most: fails when they are further apart than that.

FNR == NR {
  if ($1 == "truth") {
    truth[$2] = $3
    order[++zones] = $2
  }
  next
}

# Zones are a stack's outermost frames, down to the program's first function or
# to the mark that stands in its place.
{
  count = $NF
  sub(/ [0-9]+$/, "")
  n = split($0, frame, ";")
  path = ""
  for (i = 1; i <= n && frame[i] !~ /^(_start|\[.*\])$/; i++)
    path = path (i > 1 ? "/" : "") frame[i]
  samples[path == "" ? "-" : path] += count
  total += count
}

END {
  if (!zones || !total) {
    print "nothing to compare: " zones + 0 " zones, " total + 0 " samples"
    exit 2
  }
  printf "%-16s %8s %8s\n", "zone", "truth", "profile"
  for (i = 1; i <= zones; i++) {
    share = 100 * samples[order[i]] / total
    printf "%-16s %6.2f %% %6.2f %%\n", order[i], truth[order[i]], share
    delete samples[order[i]]
    apart = share - truth[order[i]]
    if (most != "" && (apart > most || apart < -most)) bad = 1
  }
  for (path in samples) {
    share = 100 * samples[path] / total
    printf "%-16s %8s %6.2f %%\n", path, "-", share
    if (most != "" && share > most) bad = 1
  }
  exit bad
}
