#!/usr/bin/env bash
# usage: symbols_test.sh LIBRARY LIST HEADER
# The library exports the functions of the list as SLUICE_0, C++ of its own as SLUICE_PRIVATE or SLUICE_CXX, and nothing else. The header
# declares what the list has.
set -euo pipefail
# shellcheck source=tests/install/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
readonly LIBRARY=$1 LIST=$2 HEADER=$3
need nm
make_work_folder

LC_ALL=C sort -u "$LIST" >"$WORK/list"

# compare FILE WHAT: prints how a list differs from the one that is kept.
compare() {
  diff -u --label "$LIST" --label "$2" "$WORK/list" "$1" ||
    fail "$2 and $LIST differ. A new function is a new line. Without a line that it had, programs that call it no longer start."
}

# The versions themselves are absolute symbols.
nm -D --defined-only "$LIBRARY" | awk '$2 != "A" { print $NF }' | LC_ALL=C sort >"$WORK/exported"
sed -n 's/@@SLUICE_0$//p' "$WORK/exported" >"$WORK/public"
compare "$WORK/public" "$LIBRARY"

strays=$(grep -vE '@@SLUICE_0$|^_Z(N|NK|T[ISV]N)6sluice.*@@SLUICE_(PRIVATE|CXX)$' "$WORK/exported" || true)
[[ -z $strays ]] || fail "$LIBRARY exports what is neither the C API nor namespace sluice:
$strays"

sed -nE 's/^[a-z].*[ *](sluice_[a-z0-9_]+)\(.*/\1/p' "$HEADER" | LC_ALL=C sort >"$WORK/declared"
compare "$WORK/declared" "$HEADER"
