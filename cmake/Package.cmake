# The .deb that `./dev deb` makes: one package with the program, the libraries and all that compiling against them needs.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VENDOR Sluice)
set(CPACK_PACKAGE_CONTACT "Sluice maintainers <maintainers@localhost>")
set(CPACK_PACKAGE_DESCRIPTION "Sluice trains and runs LSTM, GRU and plain RNN models on CPUs and NVIDIA GPUs.
The package has the program, libraries for C and C++, headers, and files for
CMake and pkg-config.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# dpkg-shlibdeps asks the libraries themselves which packages they need, and finds ours here.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# It does not see that relative relocations (src/CMakeLists.txt) need a newer loader than any function does.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36)")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
# Writes what packages that link these libraries depend on.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
include(CPack)
