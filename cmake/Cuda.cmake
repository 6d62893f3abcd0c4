# The CUDA part: built where nvcc is, unless SLUICE_CUDA says otherwise.
include(CheckLanguage)
if(NOT DEFINED SLUICE_CUDA)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER AND NOT SLUICE_SANITIZE)
    set(found ON)
  else()
    set(found OFF)
  endif()
  set(SLUICE_CUDA ${found} CACHE BOOL "Build libsluice_cuda.so")
endif()
option(SLUICE_ALL_ARCHS "Compile kernels for GPUs of compute capability 8.0, 9.0 and 10.0 and newer, not for 9.0 alone"
       OFF)

if(SLUICE_CUDA)
  # PTX of the lowest is what GPUs newer than all of them run, translated by their driver.
  if(SLUICE_ALL_ARCHS)
    set(architectures 80-real 90a-real 100-real 80-virtual)
  else()
    set(architectures 90a-real)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${architectures} CACHE STRING "GPU architectures")
  enable_language(CUDA)
  # CMake 3.25 does not know how to ask nvcc for C++20.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
endif()

#   sluice_cuda_room(name SOURCES a.cu b.cpp ...)
#
# One cuda/ folder of src/ and one target; libsluice_cuda.so holds them all, the core none.
#
# Kernels are compiled for each cell, type and size that has its own: so many sources at most, which take two cores
# twelve minutes, and so many bytes of library, which a test holds it to (docs/gpu.md).
set(SLUICE_MOST_CUDA_SOURCES 124)
set(SLUICE_MOST_CUDA_BYTES 15000000)
set_property(GLOBAL PROPERTY SLUICE_CUDA_ROOMS "")
set_property(GLOBAL PROPERTY SLUICE_CUDA_SOURCES "")
function(sluice_cuda_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES" ${ARGN})
  add_library(sluice_cuda_${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(sluice_cuda_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                        ${PROJECT_SOURCE_DIR}/src)
  # fmt leaves out constexpr for nvcc, which its checks of format strings need. Constexpr functions of
  # other rooms, such as Philox, run in kernels too.
  target_compile_definitions(sluice_cuda_${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
  # Machine code shrinks to a fifth; a driver unpacks it in milliseconds when it first needs a kernel. What queues
  # kernels is compiled for size, as steps are captured once and replayed.
  target_compile_options(sluice_cuda_${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --compress-mode=size>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Os>)
  target_link_libraries(sluice_cuda_${name} PUBLIC fmt::fmt CUDA::cudart_static)
  set_property(GLOBAL APPEND PROPERTY SLUICE_CUDA_ROOMS sluice_cuda_${name})
  list(FILTER ROOM_SOURCES INCLUDE REGEX "[.]cu$")
  set_property(GLOBAL APPEND PROPERTY SLUICE_CUDA_SOURCES ${ROOM_SOURCES})
  get_property(all GLOBAL PROPERTY SLUICE_CUDA_SOURCES)
  list(LENGTH all count)
  if(count GREATER SLUICE_MOST_CUDA_SOURCES)
    message(FATAL_ERROR "${count} CUDA sources with those of sluice_cuda_${name}; the cap is ${SLUICE_MOST_CUDA_SOURCES}: leave "
                        "instances out, or measure a build without a cache on two cores and raise it in cmake/Cuda.cmake")
  endif()
endfunction()
