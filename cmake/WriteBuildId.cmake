# Run at each build (cmake -P): writes OUTPUT from TEMPLATE with @BUILD_ID@, which changes with VERSION, with FLAGS and
# with every header below SOURCE that libsluice.so and its parts share. The file is touched only when the id changes.
file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/include/*.h ${SOURCE}/src/base/*.h ${SOURCE}/src/runtime/*.h
     ${SOURCE}/src/kernels/*.h ${SOURCE}/src/distributed/*.h)
list(FILTER headers EXCLUDE REGEX "/(cpu|cuda|onednn|threads|tcp)/")
list(SORT headers)
set(content "${FLAGS}")
foreach(header IN LISTS headers)
  file(SHA256 ${SOURCE}/${header} hash)
  string(APPEND content "\n${header} ${hash}")
endforeach()
string(SHA256 hash "${content}")
string(SUBSTRING ${hash} 0 16 short)
set(BUILD_ID ${VERSION}-${short})
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
