#!/usr/bin/env bash
# usage: python_test.sh BUILD SOURCE
# Makes the wheel, installs it in a virtual environment, and runs python/tests there.
set -euo pipefail
# shellcheck source=tests/install/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
BUILD=$(realpath "$1") SOURCE=$(realpath "$2")
readonly BUILD SOURCE
export PYTHON=/usr/bin/python3
need "$PYTHON" readelf
$PYTHON -c 'import ensurepip, sysconfig, os; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || {
  echo "1 skipped: this machine's Python lacks venv or headers"
  exit 77
}

status=0
"$SOURCE/packaging/wheel.sh" "$BUILD" || status=$?
if ((status == 77)); then
  echo "1 skipped: pip can't install nanobind, scikit-build-core, pytest and jaxlib"
  exit 77
fi
((status == 0)) || fail "packaging/wheel.sh"

version=$($PYTHON -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=$BUILD/python/venv-$version
tag=cp${version/./}
((${version#3.} < 12)) || tag=cp312
wheels=("$BUILD"/wheels/sluice-*-"$tag"-*.whl)
"$venv/bin/python" -m pip install --quiet --no-deps --no-index --force-reinstall "${wheels[0]}" || fail "the wheel can't be installed"

package=$(cd / && "$venv/bin/python" -c 'import sluice; print(sluice.__path__[0])')
readonly files=("$package"/_*.so "$package"/lib/libsluice*.so.* "$package"/jax/libsluice_jax.so)
needed=$(readelf -d "${files[@]}" | grep NEEDED)
! grep -E 'libtorch|libcudart|libpython|libjax|libxla' <<<"$needed" || fail "the wheel links these"
for file in "${files[@]}"; do
  readelf -d "$file" | grep -qE "RPATH.*\[\\\$ORIGIN(/lib|/\.\./lib)?\]" || fail "$file searches other folders than its own"
done

# Passive, as other tests use the processors at the same time. Tests with frameworks have commands of their own, ./dev test-python
# and ./dev test-frameworks.
SLUICE_PROGRAM=$BUILD/sluice OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive "$venv/bin/pytest" -q -p no:cacheprovider \
  --ignore-glob "$SOURCE/python/tests/with_*" "$SOURCE/python/tests"
