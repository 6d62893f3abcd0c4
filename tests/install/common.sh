# shellcheck shell=bash
# Read by the tests in this folder.

fail() {
  printf 'failed: %s\n' "$*"
  exit 1
}

# Ends the test as skipped if one of these programs is missing.
need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null && continue
    echo "1 skipped: this machine has no $tool"
    exit 77
  done
}

# shellcheck disable=SC2034  # the tests use it
WARNINGS=(-Wall -Wextra -Wpedantic -Werror)

# Removed at the end of the test.
make_work_folder() {
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
}
