# SPDX-License-Identifier: Apache-2.0
# Builds the user's project SOURCE against the gyre installed in PREFIX, and runs it, in Debug and
# in Release.

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BUILD}" -G "Ninja Multi-Config"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  "-DCMAKE_PREFIX_PATH=${PREFIX}")
foreach(config IN ITEMS Debug Release)
  run("${CMAKE_COMMAND}" --build "${BUILD}" --config ${config})
  run("${BUILD}/${config}/coroutines")
endforeach()
