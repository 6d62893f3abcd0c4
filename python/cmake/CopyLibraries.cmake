# Runs at installation, with TREE and NANOBIND set: copies what the installed libraries need to sluice/lib/, and the licences
# of all that to sluice/licences/.
set(folder $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/sluice)
file(MAKE_DIRECTORY ${folder}/licences)
file(COPY ${TREE}/LICENSE DESTINATION ${folder}/licences)

# --- libraries ------------------------------------------------------------------------------------

# A system that runs Python wheels has these, and a second libstdc++ in a process is none that it should have.
set(systems_own "^(linux-vdso|ld-linux|libc[.]|libm[.]|libdl[.]|libpthread[.]|librt[.]|libgcc_s[.]|libstdc[+][+][.])")
file(GLOB libraries ${folder}/lib/libsluice*.so.*)
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${libraries} PRE_EXCLUDE_REGEXES ${systems_own} "^libsluice"
     RESOLVED_DEPENDENCIES_VAR others UNRESOLVED_DEPENDENCIES_VAR missing)
if(missing)
  message(FATAL_ERROR "not on this machine, though the libraries need it: ${missing}")
endif()
foreach(other IN LISTS others)
  get_filename_component(name ${other} NAME)
  file(REAL_PATH ${other} file)
  file(COPY_FILE ${file} ${folder}/lib/${name})
endforeach()

# --- licences -------------------------------------------------------------------------------------

file(GLOB texts ${NANOBIND}-*.dist-info/licenses/LICENSE ${NANOBIND}-*.dist-info/LICENSE)
foreach(text IN LISTS texts)
  file(COPY_FILE ${text} ${folder}/licences/nanobind.txt)
endforeach()
if(EXISTS ${folder}/lib/libsluice_cuda.so.0)
  file(WRITE ${folder}/licences/cuda-runtime.txt
       "libsluice_cuda.so contains the CUDA runtime (cudart_static), distributed under NVIDIA's CUDA Toolkit EULA.\n")
endif()

# A wheel that stays on its machine needs no licences of the machine's libraries, so other systems than Debian go without.
find_program(DPKG_QUERY dpkg-query)
foreach(other IN LISTS others)
  set(package "")
  if(DPKG_QUERY)
    file(REAL_PATH ${other} file)
    # Debian's files are owned by the path before or after /usr was merged.
    string(REGEX REPLACE "^/usr/lib" "/lib" before ${file})
    foreach(path IN ITEMS ${file} /usr${file} ${before})
      execute_process(COMMAND ${DPKG_QUERY} -S ${path} OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE failed)
      if(NOT failed)
        string(REGEX REPLACE ":.*" "" package ${owner})
        break()
      endif()
    endforeach()
  endif()
  get_filename_component(name ${other} NAME)
  if(package AND EXISTS /usr/share/doc/${package}/copyright)
    # Many are links.
    file(REAL_PATH /usr/share/doc/${package}/copyright text)
    file(COPY_FILE ${text} ${folder}/licences/${name}.txt)
    # These refer to texts that all Debian systems have, instead of repeating them.
    file(STRINGS ${text} lines REGEX "/usr/share/common-licenses/")
    string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]" common "${lines}")
    foreach(license IN LISTS common)
      file(REAL_PATH ${license} text)
      get_filename_component(license ${license} NAME)
      file(COPY_FILE ${text} ${folder}/licences/${license})
    endforeach()
  else()
    message(WARNING "the licence of ${name} is unknown, so don't give this wheel to others")
  endif()
endforeach()
