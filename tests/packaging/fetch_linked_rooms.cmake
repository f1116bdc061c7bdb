# SPDX-License-Identifier: Apache-2.0
# Checks that a user's project, SOURCE, which fetches gyre and links a few rooms, compiles no others.
# It is only configured, in BUILD; Ninja lists what it would compile.

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE output)
  set(output "${output}" PARENT_SCOPE)
endfunction()
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BUILD}" -G Ninja "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DGYRE_SOURCE_DIR=${GYRE_SOURCE_DIR}")
run("${CMAKE_COMMAND}" --build "${BUILD}" -- -t inputs all)
foreach(wanted IN ITEMS main.cpp gyre_base.dir gyre_task.dir)
  if(NOT output MATCHES "${wanted}")
    message(FATAL_ERROR "${wanted} is not compiled")
  endif()
endforeach()
if(output MATCHES "gyre_(exec|io|http|nats)\\.dir")
  message(FATAL_ERROR "${CMAKE_MATCH_0} is compiled, and the project does not link it")
endif()
