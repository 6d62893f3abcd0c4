#!/usr/bin/env bash
# usage: prefix_test.sh BUILD SOURCE VERSION BIN_FOLDER LIBRARY_FOLDER
# Installs the build, and builds and runs programs against it that know nothing of the tree: by pkg-config, by
# find_package, and again after the prefix has moved.
set -euo pipefail
# shellcheck source=tests/install/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
readonly BUILD=$1 SOURCE=$2 VERSION=$3 BIN=$4 LIB=$5
need cc c++ cmake pkg-config readelf
make_work_folder
unset CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH CFLAGS CXXFLAGS LDFLAGS
PREFIX=$WORK/first

cp -r "$SOURCE/examples/embed" "$SOURCE/tests/install/models" "$WORK/"

# Prints what a command said if it failed.
quietly() {
  "$@" >"$WORK/log" 2>&1 || {
    cat "$WORK/log"
    fail "$*"
  }
}

packages() { PKG_CONFIG_PATH=$PREFIX/$LIB/pkgconfig pkg-config "$@"; }

# by_pkg_config NAME PACKAGE COMPILER...: builds $WORK/NAME.
by_pkg_config() {
  local name=$1 package=$2 flags
  shift 2
  read -ra flags <<<"$(packages --cflags --libs "$package")"
  quietly "$@" "${WARNINGS[@]}" "${flags[@]}" "-Wl,-rpath,$PREFIX/$LIB" -o "$WORK/$name"
}

# by_cmake FOLDER: builds the project in $WORK/FOLDER, in a folder of its own for each prefix.
by_cmake() {
  local build=$WORK/$1-${PREFIX##*/}
  quietly cmake -S "$WORK/$1" -B "$build" "-DCMAKE_PREFIX_PATH=$PREFIX" "-DCMAKE_C_FLAGS=${WARNINGS[*]}" "-DCMAKE_CXX_FLAGS=${WARNINGS[*]}"
  grep -qxF "sluice_DIR:PATH=$PREFIX/$LIB/cmake/sluice" "$build/CMakeCache.txt" || fail "CMake found another Sluice than that in $PREFIX"
  quietly cmake --build "$build"
}

# run PROGRAM [ARGUMENTS]: prints what it printed; its libraries must be those of the prefix.
run() {
  local strays
  strays=$(ldd "$1" | awk -v own="$PREFIX/" '$1 ~ /^libsluice/ && index($3, own) != 1')
  [[ -z $strays ]] || fail "$1 loads from elsewhere than $PREFIX: $strays"
  "$@" || fail "$* does not run"
}

check_files() {
  local file strays
  for file in "$PREFIX/$LIB"/libsluice*.so; do
    [[ $(rpath_of "$file") == "\$ORIGIN" ]] || fail "$file searches $(rpath_of "$file"), not its own folder"
  done
  [[ $(rpath_of "$PREFIX/$BIN/sluice") == "\$ORIGIN/"* ]] || fail "sluice searches $(rpath_of "$PREFIX/$BIN/sluice")"
  strays=$(grep -rlF -e "$BUILD" -e "$SOURCE/" -e "$PREFIX" "$PREFIX/$LIB/cmake" "$PREFIX/$LIB/pkgconfig" || true)
  [[ -z $strays ]] || fail "these name folders of this machine: $strays"
  for file in include/sluice.h include/sluice/error.h share/doc/sluice/LICENSE; do
    [[ -f $PREFIX/$file ]] || fail "$file was not installed"
  done
}

rpath_of() { readelf -d "$1" | sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\]/\2/p'; }

check_version() {
  [[ $(run "$PREFIX/$BIN/sluice" --version) == *"$VERSION"* ]] || fail "sluice --version does not say $VERSION"
}

check_numbers() {
  local name
  run "$WORK/c_by_pkg_config" >"$WORK/numbers"
  cat "$WORK/numbers"
  [[ $(grep -cE '^[a-z_]+( +-?0\.[0-9]+){4}$' "$WORK/numbers") == 3 && $(grep -c '0\.000000' "$WORK/numbers") == 0 ]] ||
    fail "lstm.c prints no three lines of four numbers"
  for name in cpp_by_pkg_config "embed-${PREFIX##*/}/lstm_c" "embed-${PREFIX##*/}/lstm_cpp"; do
    run "$WORK/$name" | diff "$WORK/numbers" - || fail "$name prints other numbers than lstm.c by pkg-config"
  done
}

# A model that is not there, in one sentence.
check_model_program() {
  local said
  said=$("$1" "$WORK/none" 2>&1) && fail "$1 runs without a model"
  [[ $said == "model: "*none* && $(wc -l <<<"$said") == 1 ]] || fail "$1 says: $said"
}

check_builds() {
  by_pkg_config c_by_pkg_config sluice cc -std=c99 "$WORK/embed/lstm.c"
  by_pkg_config cpp_by_pkg_config sluice c++ -std=c++20 "$WORK/embed/lstm.cpp"
  by_pkg_config model_by_pkg_config sluice-core cc -std=c99 "$WORK/embed/model.c"
  by_cmake embed
  check_numbers
  check_model_program "$WORK/model_by_pkg_config"
  check_model_program "$WORK/embed-${PREFIX##*/}/model_c"
  by_cmake models
  run "$WORK/models-${PREFIX##*/}/models"
}

quietly cmake --install "$BUILD" --prefix "$PREFIX"
check_files
for header in "$PREFIX"/include/sluice/*.h; do
  echo "#include <sluice/$(basename "$header")>"
done >"$WORK/models/all_headers.h"
[[ $(packages --modversion sluice sluice-core | sort -u) == "$VERSION" ]] || fail "pkg-config does not say $VERSION"
check_version
check_builds
by_pkg_config models_by_pkg_config sluice-core c++ -std=c++20 "$WORK/models/models.cpp"
run "$WORK/models_by_pkg_config"

mv "$PREFIX" "$WORK/second"
PREFIX=$WORK/second
check_version
check_builds
