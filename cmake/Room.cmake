# A room is one folder of src/ and one target. Rooms are object libraries; a shared library holds each, the one that
# SLUICE_LIBRARY names where the room is made (src/CMakeLists.txt).
#
#   sluice_room(name SOURCES a.cpp ... [ROOMS base ...] [LIBRARIES fmt::fmt ...] [SMALL])
#
# ROOMS are the rooms below that this one may include (tests/structure checks the includes themselves). SMALL: compiled for
# size, for it spends its time in what it calls, and the bundle has room for so much.

function(sluice_room name)
  cmake_parse_arguments(ROOM "SMALL" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  add_library(sluice_${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(sluice_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                   ${PROJECT_SOURCE_DIR}/src)
  foreach(below IN LISTS ROOM_ROOMS)
    target_link_libraries(sluice_${name} PUBLIC sluice_${below})
  endforeach()
  target_link_libraries(sluice_${name} PUBLIC ${ROOM_LIBRARIES})
  if(ROOM_SMALL)
    target_compile_options(sluice_${name} PRIVATE $<$<CONFIG:Release>:-Os>)
  endif()
  set_property(GLOBAL APPEND PROPERTY ${SLUICE_LIBRARY}_ROOMS sluice_${name})
endfunction()

#   sluice_onednn_room(name SOURCES a.cpp ...)
#
# One onednn/ folder of src/ and one target; libsluice_onednn.so holds them all.
function(sluice_onednn_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES" ${ARGN})
  add_library(sluice_onednn_${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(sluice_onednn_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                          ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(sluice_onednn_${name} PUBLIC fmt::fmt OpenMP::OpenMP_CXX onednn)
  set_property(GLOBAL APPEND PROPERTY SLUICE_ONEDNN_ROOMS sluice_onednn_${name})
endfunction()

# Compiles files of a room for size where it has others that must be fast.
function(sluice_small_sources)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)
endfunction()

#   sluice_test(name SOURCES a_test.cpp ... [HOST_SOURCES b_test.cpp ...] [LIBRARIES ...] [MAIN main.cpp])
#
# One GoogleTest program; each of its cases is a CTest test named name.Suite.Case. Objects and libraries of all are
# kept for sluice-tests, which has them all in one program (tests/unit/CMakeLists.txt); HOST_SOURCES, whose tests see no
# device, and MAIN are the room's alone.
set_property(GLOBAL PROPERTY SLUICE_TESTS "")
set_property(GLOBAL PROPERTY SLUICE_TEST_LIBRARIES "")

function(sluice_test name)
  cmake_parse_arguments(TEST "" "MAIN" "SOURCES;HOST_SOURCES;LIBRARIES" ${ARGN})
  add_library(${name}_test_objects OBJECT ${TEST_SOURCES})
  add_executable(${name}_test $<TARGET_OBJECTS:${name}_test_objects> ${TEST_HOST_SOURCES} ${TEST_MAIN})
  foreach(target IN ITEMS ${name}_test_objects ${name}_test)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    # Tests spend their time in the libraries: small is what counts, as the bundle has most of them.
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os;-ffunction-sections;-fdata-sections>)
  endforeach()
  target_link_libraries(${name}_test_objects PRIVATE sluice_core GTest::gtest ${TEST_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY SLUICE_TESTS ${name})
  set_property(GLOBAL APPEND PROPERTY SLUICE_TEST_LIBRARIES ${TEST_LIBRARIES})

  if(NOT TEST_MAIN)
    target_link_libraries(${name}_test PRIVATE test_main)
  endif()
  target_link_libraries(${name}_test PRIVATE test_support sluice_core GTest::gtest ${TEST_LIBRARIES})
  set_target_properties(${name}_test PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  # Opened at run time.
  add_dependencies(${name}_test sluice_onednn)
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
    PROPERTIES TIMEOUT 600)
endfunction()
