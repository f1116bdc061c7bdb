# SPDX-License-Identifier: Apache-2.0
# Builds and installs gyre without any room that needs a library, where pkg-config finds nothing, and
# a user's project with it. Then checks that rooms which were left out are refused with the reason,
# and that gyre.hpp includes none of them. To save time, only the rooms that the project uses are
# built: the archives of the others are empty.

set(build "${WORK}/coroutines_only")
set(prefix "${build}/prefix")
set(ENV{PKG_CONFIG_LIBDIR} "${WORK}/nonexistent")
unset(ENV{PKG_CONFIG_PATH})
set(common -G Ninja "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  -DCMAKE_BUILD_TYPE=Release)
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The flags and files of the main build, so that ccache finds gyre's compiled sources.
run("${CMAKE_COMMAND}" -S "${GYRE_SOURCE_DIR}" -B "${build}" ${common} -DGYRE_WITH_IO=OFF
  "-DGYRE_UNITY_FOLDER=${UNITY_FOLDER}"
  "-DCMAKE_CXX_FLAGS_RELEASE=${FLAGS}" "-DGYRE_WARNINGS_AS_ERRORS=${WARNINGS_AS_ERRORS}")
run("${CMAKE_COMMAND}" --build "${build}" --target gyre_task)
foreach(room IN ITEMS sync metrics exec pool)
  file(WRITE "${build}/gyre/${room}/libgyre_${room}.a" "!<arch>\n")
endforeach()
run("${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}")

set(project "${GYRE_SOURCE_DIR}/tests/packaging/configurations")
run("${CMAKE_COMMAND}" -S "${project}" -B "${build}/user" ${common} "-DCMAKE_PREFIX_PATH=${prefix}")
run("${CMAKE_COMMAND}" --build "${build}/user")
run("${build}/user/coroutines")

execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${GYRE_SOURCE_DIR}/tests/packaging/consumer" -B "${build}/refused"
    ${common} "-DCMAKE_PREFIX_PATH=${prefix}" "-DCOMPONENTS=task;http"
  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE errors)
string(REGEX REPLACE "[ \n]+" " " errors "${errors}")
if(status EQUAL 0 OR NOT errors MATCHES "built without the room http; it has: base, trace, task, sync")
  message(FATAL_ERROR "a room that was left out is not refused with the reason: ${errors}")
endif()

file(READ "${prefix}/include/gyre/gyre.hpp" umbrella)
if(umbrella MATCHES "gyre/(io|net|tls|http|runtime)/" OR NOT umbrella MATCHES "gyre/pool/")
  message(FATAL_ERROR "gyre.hpp does not include just the rooms that are installed")
endif()
