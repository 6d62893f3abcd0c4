#!/usr/bin/env bash
# usage: packaging/wheel.sh BUILD_FOLDER
# Makes BUILD_FOLDER/wheels/sluice-*.whl from the libraries built there, for the interpreter that PYTHON names. A virtual
# environment in BUILD_FOLDER/python has what that takes, and what the tests in python/tests take; of jaxlib the headers alone
# are used. ./dev wheel builds first.
# Exit code 77: pip could not install that.
set -euo pipefail
readonly BUILD=$(realpath "$1") SOURCE=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
readonly PYTHON=${PYTHON:-/usr/bin/python3}
readonly WORK=$BUILD/python LOG=$BUILD/python/wheel.log

die() {
  printf 'wheel: %s\n' "$*" >&2
  exit 1
}

mkdir -p "$WORK" "$BUILD/wheels"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || die "$PYTHON does not run as a Python interpreter"
readonly VENV=$WORK/venv-$version
tag=cp${version/./}
((${version#3.} < 12)) || tag=cp312  # One wheel for all versions from 3.12 on.

# The oldest JAX that sluice.jax runs with: what is compiled with its headers runs with newer ones too.
readonly JAXLIB='0.10.*'
jax_headers() { echo "$VENV/lib/python$version/site-packages/jaxlib/include"; }

# Asks no network where all is there.
prepare_venv() {
  "$VENV/bin/python" -c 'import nanobind, scikit_build_core, numpy, ml_dtypes, pytest' 2>/dev/null && [[ -d $(jax_headers) ]] && return
  "$PYTHON" -m venv --clear --system-site-packages "$VENV" &&
    "$VENV/bin/python" -m pip install nanobind scikit-build-core numpy ml_dtypes pytest &&
    "$VENV/bin/python" -m pip install --no-deps --ignore-installed "jaxlib==$JAXLIB"
}

prepare_venv >"$LOG" 2>&1 || {
  echo "wheel: pip could not install nanobind, scikit-build-core, pytest and jaxlib (log: $LOG)" >&2
  exit 77
}
rm -rf "$WORK/libraries"
cmake --install "$BUILD" --prefix "$WORK/libraries" --component libraries --strip >>"$LOG" ||
  die "the libraries are not built (log: $LOG)"
core=$(find "$WORK/libraries" -name 'libsluice.so.?' -print -quit)
rm -f "$BUILD"/wheels/sluice-*-"$tag"-*.whl
"$VENV/bin/python" -m pip wheel --no-deps --no-build-isolation --wheel-dir "$BUILD/wheels" \
  --config-settings=build-dir="$WORK/wheel-{wheel_tag}" \
  --config-settings=cmake.define.SLUICE_JAX_INCLUDE="$(jax_headers)" \
  --config-settings=cmake.define.SLUICE_LIBRARIES="$(dirname "$core")" "$SOURCE/python" >>"$LOG" 2>&1 || {
  grep -iE 'error|warning' "$LOG" | head -n 20 >&2
  die "could not make the wheel (log: $LOG)"
}
du -sh "$BUILD"/wheels/sluice-*.whl
