#!/usr/bin/env bash
# usage: packaging/bundle.sh BUILD_FOLDER
# Makes BUILD_FOLDER/bundle/sluice-VERSION and its .tar.gz from what is built there: everything but glibc that the
# program needs, so that it runs on another Linux with a glibc as new, with nothing installed. ./dev bundle builds first.
set -euo pipefail
readonly BUILD=$(realpath "$1") SOURCE=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
# oneDNN takes 38 MiB of these.
readonly LIMIT=$((80 << 20))
# What a running system has in any case: glibc. The driver and CUDA's libraries are opened at run time.
readonly SYSTEM='^(linux-vdso|ld-linux|libc\.|libm\.|libdl\.|libpthread\.|librt\.|libresolv\.)'
# Compiled into what is bundled.
readonly HEADER_PACKAGES=(nlohmann-json3-dev libcli11-dev libprotozero-dev libtomlplusplus-dev libgtest-dev)

die() {
  printf 'bundle: %s\n' "$*" >&2
  exit 1
}

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$BUILD/CMakeCache.txt")
readonly NAME=sluice-$version
readonly FOLDER=$BUILD/bundle/$NAME

# With headers and what CMake and pkg-config read, so that other programs can be built against the bundle.
copy_programs() {
  local component
  mkdir -p "$FOLDER"
  cp "$BUILD/sluice" "$BUILD/sluice-tests" "$FOLDER/"
  for component in libraries development; do
    cmake --install "$BUILD" --prefix "$FOLDER" --component "$component" >/dev/null
  done
  rm -r "$FOLDER/share"
}

# The libraries that ldd finds for a file, but the system's own: "name path" a line.
needed_by() {
  ldd "$@" | awk -v system_own="$SYSTEM" '$2 == "=>" && $1 !~ system_own { print $1, ($3 == "not" ? "missing" : $3) }' | sort -u
}

# The libraries of a folder whose needs are bundled. MPI is the cluster's own.
parts_in() { find "$1" -name 'libsluice*.so.?' ! -name 'libsluice_mpi*'; }

copy_libraries() {
  local name path
  while read -r name path; do
    [[ $name != libsluice* ]] || continue
    [[ -f $path ]] || die "$name, which the program needs, is not on this machine"
    cp -L "$path" "$FOLDER/lib/$name"
    add_licence "$path"
  done < <(needed_by "$BUILD/sluice" "$BUILD/sluice-tests" $(parts_in "$BUILD/lib"))
}

add_licence() {
  local package
  # Debian's files are owned by the path before or after /usr was merged.
  package=$(dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "$(realpath "$1")" 2>/dev/null) ||
    die "no package owns $1, so its licence is unknown"
  add_licence_of_package "${package%%:*}"
}

# By the source's name: what is built from one source (gcc's libraries) has one licence.
add_licence_of_package() {
  local source
  source=$(dpkg-query -W -f='${source:Package}' "$1")
  cp -L "/usr/share/doc/$1/copyright" "$FOLDER/licences/$source.txt" || die "package $1 states no licence"
}

copy_licences() {
  local package text
  cp "$SOURCE/LICENSE" "$FOLDER/"
  for package in "${HEADER_PACKAGES[@]}"; do add_licence_of_package "$package"; done
  # The copyright files refer to these instead of repeating them.
  for text in $(grep -hoE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$FOLDER"/licences/*.txt | sort -u); do
    # Some are links to a version beside them.
    cp -P "$text" "$FOLDER/licences/"
    if [[ -L $text ]]; then cp "$(realpath "$text")" "$FOLDER/licences/"; fi
  done
  if [[ -f $FOLDER/lib/libsluice_cuda.so.0 ]]; then
    echo "libsluice_cuda.so contains the CUDA runtime (cudart_static), distributed under NVIDIA's CUDA Toolkit EULA." \
      >"$FOLDER/licences/cuda-runtime.txt"
  fi
}

copy_test_data() {
  local part
  for part in tests/peers/goldens tests/allowed_skips.txt tests/unit/io/formats/fixtures bench/shapes examples; do
    mkdir -p "$FOLDER/test-data/$(dirname "$part")"
    cp -r "$SOURCE/$part" "$FOLDER/test-data/$part"
  done
  # Of tests that see no device and so are not in the program.
  rm "$FOLDER"/test-data/tests/peers/goldens/{text_metrics,entity_f1}.json
}

# The compute capabilities that the GPU's part has kernels for.
kernels() {
  if grep -q '^SLUICE_ALL_ARCHS:BOOL=ON' "$BUILD/CMakeCache.txt"; then echo "8.0 or newer"; else echo "9.0"; fi
}

write_readme() {
  local glibc
  glibc=$(objdump -T "$FOLDER"/sluice* "$FOLDER"/lib/*.so* | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
  sed "s/@VERSION@/$version/; s/@GLIBC@/${glibc#GLIBC_}/; s/@MACHINE@/$(uname -m)/; s/@KERNELS@/$(kernels)/" "$SOURCE/packaging/README.md" >"$FOLDER/README.md"
}

# As on another machine: no environment, and every library from the folder. (Those of others know no folder of their own and
# are found by who loads them.)
check() {
  local strays
  strays=$(cd "$FOLDER" && env -i PATH=/usr/bin:/bin bash -c "$(declare -f needed_by parts_in); SYSTEM='$SYSTEM' needed_by sluice sluice-tests \$(parts_in lib)" |
    awk -v folder="$FOLDER/" 'index($2, folder) != 1 && index($2, "./") != 1')
  [[ -z $strays ]] || die "not from the bundle: $strays"
  env -i "$FOLDER/sluice" --version >/dev/null || die "the bundled program does not run"
  check_that_others_build
}

# A program in C that finds the bundle's libraries by pkg-config.
check_that_others_build() {
  local flags
  command -v pkg-config >/dev/null || return 0
  read -ra flags <<<"$(PKG_CONFIG_PATH=$FOLDER/lib/pkgconfig pkg-config --cflags --libs sluice)"
  cc -std=c99 "$SOURCE/examples/embed/lstm.c" "${flags[@]}" "-Wl,-rpath,$FOLDER/lib" -o "$BUILD/bundle/lstm" ||
    die "a program can't be built against the bundle"
  env -i "$BUILD/bundle/lstm" >/dev/null || die "a program that was built against the bundle does not run"
  rm "$BUILD/bundle/lstm"
}

rm -rf "${BUILD:?}/bundle"
mkdir -p "$FOLDER/licences"
copy_programs
copy_libraries
copy_licences
copy_test_data
find "$FOLDER"/sluice "$FOLDER"/sluice-tests "$FOLDER"/lib -maxdepth 1 -type f -exec strip --strip-unneeded {} +
write_readme
check
tar -C "$BUILD/bundle" --owner=0 --group=0 --sort=name -czf "$BUILD/bundle/$NAME.tar.gz" "$NAME"
for made in "$FOLDER" "$BUILD/bundle/$NAME.tar.gz"; do
  size=$(du -sb "$made" | cut -f 1)
  ((size <= LIMIT)) || die "$made takes $((size >> 20)) MiB, more than $((LIMIT >> 20))"
done
[[ -f $FOLDER/lib/libsluice_cuda.so.0 ]] || echo "without the GPU's part: no nvcc on this machine"
du -sh "$FOLDER" "$BUILD/bundle/$NAME.tar.gz"
