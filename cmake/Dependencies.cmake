# Libraries from the system's packages; ./dev installs them.
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)

# Debian's dnnl-config.cmake asks for OpenCL, which nothing here uses, so the library is found by name.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
add_library(onednn INTERFACE)
target_link_libraries(onednn INTERFACE ${DNNL_LIBRARY})
target_include_directories(onednn SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})

if(SLUICE_LAYERS_ONLY)
  return()
endif()

# Without it, ranks of a run are threads or GPUs of one machine.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX)

find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp REQUIRED)
find_package(CLI11 REQUIRED)

find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
add_library(tomlplusplus INTERFACE)
target_include_directories(tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE_DIR})

find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train REQUIRED)
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h REQUIRED)
add_library(sentencepiece INTERFACE)
target_link_libraries(sentencepiece INTERFACE ${SENTENCEPIECE_LIBRARY} ${SENTENCEPIECE_TRAIN_LIBRARY})
target_include_directories(sentencepiece SYSTEM INTERFACE ${SENTENCEPIECE_INCLUDE_DIR})

if(SLUICE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
