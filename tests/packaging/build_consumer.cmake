# SPDX-License-Identifier: Apache-2.0
# Builds the user's project SOURCE in BUILD, configured with the options that follow `--`, and runs
# its program `consumer`. `ctest --build-and-test` would do the same, but sets LC_ALL, which keeps
# ccache from finding objects that were compiled without it.

set(options "")
set(in_options FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE ${last})
  if(in_options)
    list(APPEND options "${CMAKE_ARGV${index}}")
  elseif(CMAKE_ARGV${index} STREQUAL "--")
    set(in_options TRUE)
  endif()
endforeach()

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BUILD}" ${options})
run("${CMAKE_COMMAND}" --build "${BUILD}")
run("${BUILD}/consumer")
