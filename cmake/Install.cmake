# What `cmake --install` copies: programs, libraries, headers, and the files by which CMake and pkg-config find them. An
# installed folder may be moved.
#
# Components: `libraries`, `programs`, and `development` for all that only compiling needs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# From the first folder to the second, both below the prefix: "../lib".
function(sluice_relative_folder from to result)
  file(RELATIVE_PATH path /prefix/${from} /prefix/${to})
  string(REGEX REPLACE "/$" "" path "${path}")
  set(${result} ${path} PARENT_SCOPE)
endfunction()

#   sluice_install_library(target [EXPORT name])
#
# EXPORT: other projects link it, as sluice::name. Libraries that are opened at run time have none; those that an exported
# library links must be exported too.
function(sluice_install_library target)
  cmake_parse_arguments(INSTALL "" "EXPORT" "" ${ARGN})
  set(export)
  if(INSTALL_EXPORT)
    set(export EXPORT sluice-targets)
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${INSTALL_EXPORT})
    target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "\$ORIGIN")
  install(TARGETS ${target} ${export}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries NAMELINK_COMPONENT development)
endfunction()

#   sluice_install_program(target)
function(sluice_install_program target)
  sluice_relative_folder(${CMAKE_INSTALL_BINDIR} ${CMAKE_INSTALL_LIBDIR} libraries)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "\$ORIGIN/${libraries}")
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
endfunction()

# --- headers, and how they are found --------------------------------------------------------------

set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h")

install(EXPORT sluice-targets NAMESPACE sluice:: DESTINATION ${cmake_folder} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/sluice-config.cmake.in
                              ${PROJECT_BINARY_DIR}/packaging/sluice-config.cmake
                              INSTALL_DESTINATION ${cmake_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/packaging/sluice-config-version.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/packaging/sluice-config.cmake
              ${PROJECT_BINARY_DIR}/packaging/sluice-config-version.cmake
        DESTINATION ${cmake_folder} COMPONENT development)

sluice_relative_folder(${pkgconfig_folder} . SLUICE_PREFIX_FROM_PKGCONFIG)
foreach(name IN ITEMS sluice sluice-core)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/${name}.pc.in ${PROJECT_BINARY_DIR}/packaging/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/packaging/${name}.pc DESTINATION ${pkgconfig_folder} COMPONENT development)
endforeach()

# --- to read --------------------------------------------------------------------------------------

# Debian wants the licence under this name.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/docs/equations.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/docs/embedding.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development OPTIONAL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/embed DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
        COMPONENT development)
