# SPDX-License-Identifier: Apache-2.0
# Builds a user's project that fetches gyre's sources, SOURCE, in the configuration CONFIG, runs it,
# and installs from its build tree into PREFIX. To save time, only the rooms that the project uses
# are built: the archives of the others are empty.

set(build "${WORK}/fetched")
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${build}" -G Ninja
  "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  "-DGYRE_SOURCE_DIR=${GYRE_SOURCE_DIR}" -DGYRE_INSTALL=ON)
run("${CMAKE_COMMAND}" --build "${build}" --target coroutines)
run("${build}/coroutines")

file(GLOB_RECURSE scripts "${build}/_deps/gyre-build/gyre/*/cmake_install.cmake")
foreach(script IN LISTS scripts)
  cmake_path(GET script PARENT_PATH folder)
  cmake_path(GET folder FILENAME room)
  if(NOT EXISTS "${folder}/libgyre_${room}.a")
    file(WRITE "${folder}/libgyre_${room}.a" "!<arch>\n")
  endif()
endforeach()
run("${CMAKE_COMMAND}" --install "${build}" --prefix "${PREFIX}")
