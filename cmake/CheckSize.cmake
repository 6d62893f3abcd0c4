# cmake -DFILE=library -DMOST=bytes -P CheckSize.cmake: fails if the file has more.
file(SIZE ${FILE} bytes)
if(bytes GREATER MOST)
  message(FATAL_ERROR "${FILE} has ${bytes} bytes; the cap is ${MOST} (docs/gpu.md)")
endif()
message(STATUS "${FILE} has ${bytes} of ${MOST} bytes")
