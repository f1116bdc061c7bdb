# SPDX-License-Identifier: Apache-2.0
# Builds a user's project that fetches gyre's sources, SOURCE, in the configuration CONFIG, runs it,
# and installs from its build tree into PREFIX. To save time, only the rooms that the project uses
# are built, several sources at a time: the archives of the others are empty.

set(build "${WORK}/fetched")
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${build}" -G Ninja
  "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  "-DGYRE_SOURCE_DIR=${GYRE_SOURCE_DIR}" -DGYRE_INSTALL=ON -DCMAKE_UNITY_BUILD=ON)
run("${CMAKE_COMMAND}" --build "${build}" --target coroutines)
run("${build}/coroutines")

file(READ "${build}/_deps/gyre-build/cmake_install.cmake" rules)
string(REGEX MATCHALL "[^\"]+/libgyre_[a-z_]+\\.a" archives "${rules}")
foreach(archive IN LISTS archives)
  if(EXISTS "${archive}" OR NOT archive MATCHES "^${build}/")
    continue()
  endif()
  file(WRITE "${archive}" "!<arch>\n")
endforeach()
run("${CMAKE_COMMAND}" --install "${build}" --prefix "${PREFIX}")
