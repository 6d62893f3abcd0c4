# Run at each build (cmake -P): writes OUTPUT from TEMPLATE with @COMMIT@, what git calls the state of SOURCE,
# or "unknown" where SOURCE is no git working tree. The file is touched only when the answer changes.
set(COMMIT unknown)
# Asked only where SOURCE itself is a working tree: one unpacked within another would give that one's.
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(COMMIT ${described})
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
