#!/usr/bin/env bash
# usage: c_headers_test.sh FOLDER
# Each header directly in the folder compiles alone, as C99 and as C++20.
set -euo pipefail
# shellcheck source=tests/install/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need cc c++
make_work_folder

# Twice, for the include guard. An empty file is not C.
for header in "$1"/*.h; do
  name=$(basename "$header")
  printf '#include <%s>\n#include <%s>\nint defined_here;\n' "$name" "$name" >"$WORK/alone.c"
  cp "$WORK/alone.c" "$WORK/alone.cpp"
  cc -std=c99 "${WARNINGS[@]}" -I"$1" -fsyntax-only "$WORK/alone.c" || fail "$name is not C99"
  c++ -std=c++20 "${WARNINGS[@]}" -I"$1" -fsyntax-only "$WORK/alone.cpp" || fail "$name is not C++20"
done
