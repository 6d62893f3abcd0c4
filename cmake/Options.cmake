# Options and flags common to every target.
option(SLUICE_BUILD_TESTS "Build the tests" ON)
option(SLUICE_LAYERS_ONLY "Build libsluice and its parts alone, which need OpenMP, fmt and oneDNN and no other package" OFF)
set(SLUICE_SANITIZE "" CACHE STRING "Value of -fsanitize for every target, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# The program stands at the top of the build folder, libraries below lib/, so that both move together.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
# RPATH and not RUNPATH: it holds for the libraries' own libraries too, which a bundle brings along.
add_link_options(LINKER:--disable-new-dtags)

# No -ffast-math and no contraction behind our back: a row must give the same bits alone and in a batch.
set(SLUICE_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${SLUICE_WARNINGS};-ffp-contract=off>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-Werror=all-warnings>")
if(SLUICE_SANITIZE)
  add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # With a sanitizer GCC 12 takes members of std::regex for uninitialized.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>")
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Paths in the cache are relative to the tree, so that a fresh clone finds what another one compiled.
  set(CCACHE ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
