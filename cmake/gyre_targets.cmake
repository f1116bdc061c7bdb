# SPDX-License-Identifier: Apache-2.0
# The functions with which a room declares its library, its optional headers and its tests.

# gyre_add_room(NAME [DEPENDS room…] [HEADERS file…] [SOURCES file…] [EXCLUDE file…] [APART file…]
#   [LIBS target…])
#
# Makes the library gyre_NAME with the alias gyre::NAME: static unless BUILD_SHARED_LIBS is set, an
# interface library without sources. Files are relative to the room's folder; without HEADERS and
# SOURCES, the room has all files of the folder except tests and those in EXCLUDE. HEADERS are
# installed and must each compile alone. The sources APART are never compiled together with others.
# DEPENDS names rooms above this one; LIBS are further public dependencies. Rooms below gyre/engines
# are not part of gyre::gyre and of gyre.pc.
function(gyre_add_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;HEADERS;SOURCES;EXCLUDE;APART;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gyre_add_room(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()

  if(NOT arg_HEADERS AND NOT arg_SOURCES)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" *.hpp *.cpp)
    list(FILTER files EXCLUDE REGEX "_(test|test_support|suite)\\.[ch]pp$")
    if(arg_EXCLUDE)
      list(REMOVE_ITEM files ${arg_EXCLUDE})
    endif()
    set(arg_HEADERS ${files})
    list(FILTER arg_HEADERS INCLUDE REGEX "hpp$")
    set(arg_SOURCES ${files})
    list(FILTER arg_SOURCES INCLUDE REGEX "cpp$")
  endif()

  set(target gyre_${name})
  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} "")
    gyre_add_sources(${target} "${arg_SOURCES}" "${arg_APART}")
    gyre_set_linkage(${target})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(gyre::${name} ALIAS ${target})

  set(depends ${arg_DEPENDS})
  list(TRANSFORM arg_DEPENDS PREPEND gyre::)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS} ${arg_LIBS} Threads::Threads)
  target_compile_features(${target} ${scope} cxx_std_23)
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_sources(${target} ${scope}
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${arg_HEADERS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  if(PROJECT_IS_TOP_LEVEL)
    gyre_check_headers_alone(${target} "${arg_HEADERS}")
  endif()

  set_property(GLOBAL APPEND PROPERTY GYRE_ROOMS ${name})
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/gyre/engines(/|$)")
    set_property(GLOBAL APPEND PROPERTY GYRE_ENGINES ${name})
  endif()
  set(packages ${arg_LIBS})
  list(FILTER packages INCLUDE REGEX "^PkgConfig::")
  list(TRANSFORM packages REPLACE "^PkgConfig::" "")
  set_target_properties(${target} PROPERTIES
    GYRE_DEPENDS "${depends}" GYRE_PACKAGES "${packages}")
endfunction()

# gyre_add_sources(TARGET SOURCES APART)
#
# Adds the sources of a room to its library. With GYRE_UNITY, eight of them at a time are compiled
# together, except APART: in files of GYRE_UNITY_FOLDER, so that ccache finds the objects of another
# build tree with the same folder. CMake would write such files into each build tree.
set(gyre_unity_count 8)
function(gyre_add_sources target sources apart)
  set_source_files_properties(${apart} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(GYRE_UNITY)
    target_sources(${target} PRIVATE ${apart})
    list(REMOVE_ITEM sources ${apart})
    set(number 0)
    while(sources)
      list(SUBLIST sources 0 ${gyre_unity_count} together)
      list(REMOVE_ITEM sources ${together})
      set(includes "")
      foreach(source IN LISTS together)
        cmake_path(ABSOLUTE_PATH source)
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
        string(APPEND includes "#include <${source}>\n")
      endforeach()
      set(file "${GYRE_UNITY_FOLDER}/${target}_${number}.cpp")
      file(CONFIGURE OUTPUT "${file}" CONTENT "${includes}" @ONLY)
      target_sources(${target} PRIVATE "${file}")
      math(EXPR number "${number} + 1")
    endwhile()
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  else()
    target_sources(${target} PRIVATE ${sources})
  endif()
  if(GYRE_UNITY OR CMAKE_UNITY_BUILD)
    gyre_allow_unity(${target})
    target_compile_options(${target} PRIVATE -Wno-shadow)  # one source's names may shadow another's
  endif()
endfunction()

# gyre_allow_unity(TARGET): for sources that are compiled together. GCC treats the included sources
# as headers, where an unnamed namespace would be a mistake.
function(gyre_allow_unity target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# gyre_check_headers_alone(TARGET HEADERS)
#
# Declares that each of HEADERS must compile alone with what TARGET brings. For the test
# packaging.headers_compile_alone, makes a library that is never built: its one source includes all
# of HEADERS, and the test takes the compiler's options from it.
function(gyre_check_headers_alone target headers)
  if(NOT GYRE_BUILD_CHECKS)
    return()
  endif()
  set(includes "")
  foreach(header IN LISTS headers)
    cmake_path(ABSOLUTE_PATH header)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    string(APPEND includes "#include <${header}>\n")
  endforeach()
  set(source "${PROJECT_BINARY_DIR}/headers_alone/${target}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "${includes}")
  add_library(${target}_alone OBJECT EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(${target}_alone PRIVATE ${target})
  set_target_properties(${target}_alone PROPERTIES UNITY_BUILD OFF)
endfunction()

# gyre_add_optional_headers(ROOM DEPENDENCY file…)
#
# Declares headers of a room that compile only where gyre_deps::DEPENDENCY is installed. They are
# always installed, so that a user who has the dependency can include them. Where the dependency is
# found, each header is checked to compile alone.
function(gyre_add_optional_headers room dependency)
  set(target gyre_${room}_with_${dependency})
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE gyre::${room})
  if(TARGET gyre_deps::${dependency})
    target_link_libraries(${target} INTERFACE gyre_deps::${dependency})
    if(PROJECT_IS_TOP_LEVEL)
      gyre_check_headers_alone(${target} "${ARGN}")
    endif()
  endif()
  target_sources(${target} INTERFACE
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${ARGN})

  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(GLOBAL APPEND PROPERTY GYRE_OPTIONAL_HEADERS ${ARGN})
endfunction()

# gyre_cache_precompiled(TARGET)
#
# Lets ccache cache a target that makes or uses a precompiled header, by the settings of its manual.
# With them ccache ignores __DATE__ and __TIME__, so they are for such targets only.
function(gyre_cache_precompiled target)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")
    return()
  endif()
  set(sloppiness CCACHE_SLOPPINESS=pch_defines,time_macros)
  set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND};-E;env;${sloppiness};${CMAKE_CXX_COMPILER_LAUNCHER}")
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
    $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
endfunction()

# gyre_add_test_headers(NAME): GoogleTest and other headers that most tests include, precompiled
# once for all tests with the same options. No header of gyre is among them, so a missing include
# of gyre's own is noticed.
function(gyre_add_test_headers name)
  # A target needs a source to have a precompiled header.
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/gyre_test_headers.cpp" CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/gyre_test_headers.cpp")
  target_compile_features(${name} PRIVATE cxx_std_23)
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main Threads::Threads)
  target_precompile_headers(${name} PRIVATE
    <gmock/gmock.h> <gtest/gtest.h>
    <algorithm> <array> <atomic> <chrono> <coroutine> <exception> <functional> <future> <memory>
    <optional> <stdexcept> <string> <system_error> <thread> <utility> <vector>)
  gyre_cache_precompiled(${name})
endfunction()

# gyre_use_test_headers(TARGET HEADERS): makes a test use a target of gyre_add_test_headers.
function(gyre_use_test_headers target headers)
  target_precompile_headers(${target} REUSE_FROM ${headers})
  gyre_cache_precompiled(${target})
endfunction()

# gyre_test_headers_O0 is for the tests that a Release does not optimise.
if(GYRE_BUILD_TESTS)
  gyre_add_test_headers(gyre_test_headers)
  gyre_add_test_headers(gyre_test_headers_O0)
  target_compile_options(gyre_test_headers_O0 PRIVATE $<$<CONFIG:Release>:-O0>)
endif()

# The pollers of tests with BOTH_POLLERS, as values of GYRE_IO.
if(NOT DEFINED gyre_pollers_under_test)
  set(gyre_pollers_under_test epoll uring)
endif()

# gyre_test_prefix(OUT ROOM POLLER): the prefix of a room's test names on POLLER, "ROOM." on epoll
# and "ROOM.uring." on io_uring.
function(gyre_test_prefix out room poller)
  if(poller STREQUAL "epoll")
    set(${out} ${room}. PARENT_SCOPE)
  else()
    set(${out} ${room}.${poller}. PARENT_SCOPE)
  endif()
endfunction()

# gyre_skip_without_threads(OUT FILE): whether FILE is skipped because ThreadSanitizer cannot find
# anything in it: the code of the file names nothing that starts a thread or runs on one, and no
# header that tests share and that the file includes starts a thread.
function(gyre_skip_without_threads out file)
  set(${out} FALSE PARENT_SCOPE)
  if(NOT GYRE_SANITIZE MATCHES "thread")
    return()
  endif()
  file(READ "${file}" text)
  string(REGEX REPLACE "//[^\n]*" "" code "${text}")
  if(code MATCHES "thread|std::async|[Pp]ool|runtime[^_]|resolver|stress|fork|small_stack" OR
     code MATCHES "gyre/io/(directory|file|mapped_file|process|temporary|walk|write_whole)")
    return()
  endif()
  set(read "")
  while(text)
    string(REGEX MATCHALL
      "(gyre/[a-z_/]+_(test_support|suite)|gyre/testing/[a-z_]+|tests/support/[a-z_]+)\\.hpp"
      included "${text}")
    set(text "")
    list(REMOVE_DUPLICATES included)
    foreach(header IN LISTS included)
      if(header IN_LIST read)
        continue()
      endif()
      list(APPEND read ${header})
      file(READ "${PROJECT_SOURCE_DIR}/${header}" each)
      string(REGEX REPLACE "//[^\n]*" "" code "${each}")
      if(code MATCHES "std::j?thread|std::async|pthread_|thread_pool|loop_pool|stress")
        return()
      endif()
      string(APPEND text "${each}")
    endforeach()
  endwhile()
  set(${out} TRUE PARENT_SCOPE)
endfunction()

# Most of the cost of tests is compiling, and most of that is the included headers. So the files of
# one call are compiled several at a time, unless each is to be a program of its own.
option(GYRE_UNITY_TESTS "Compile several test files together" ON)
set(gyre_unity_bytes 200000)  # of source in one translation unit

# A Release optimises the library, and these tests: they depend on the effect of -O3 on coroutines,
# or have several threads run code of headers, which a compiler reorders only then. It does not
# optimise other tests: that would take twice as long to compile, and prove nothing.
set(gyre_optimised_tests "")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  list(APPEND gyre_optimised_tests
    base/slab_stress_test
    exec/event_loop_allocation_test exec/inbox_memory_test exec/inbox_stress_test
    net/echo_allocation_test net/tcp_client_memory_test
    pool/submissions_stress_test pool/thread_pool_stress_test
    sync/channel_stress_test
    task/compiler_traps_test task/foreign_awaiter_test task/task_allocation_test
    task/task_depth_test task/transfer_test)
endif()

# gyre_add_test(ROOM file_test.cpp… [BOTH_POLLERS] [APART] [COST number] [LIBS target…])
#
# Builds GoogleTest programs from the files, linked with gyre::ROOM and LIBS, and registers their
# tests with the label ROOM and the names ROOM.Suite.Test. The target gyre_ROOM_tests builds them.
#
#   BOTH_POLLERS  for tests whose loops do I/O: they run on epoll and, as ROOM.uring.Suite.Test, on
#                 io_uring
#   APART         makes each file a program of its own in any case: one that replaces operator new, say
#   COST          ctest begins tests of a high cost first: for tests that wait so long that they would
#                 otherwise run alone at the end
#
# If a gyre_deps:: library is not installed, the tests are skipped with one status line.
#
# Each test runs in a process of its own, or each suite (GYRE_SUITE_PROCESSES). With GYRE_UNITY_TESTS
# files are compiled together, so all definitions of a file stand in a namespace of its name,
# `namespace timer_test { namespace {`.
function(gyre_add_test room)
  if(NOT GYRE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "BOTH_POLLERS;APART" "COST" "LIBS")

  gyre_missing_dependencies(missing ${arg_LIBS})
  if(missing)
    message(STATUS "skipped tests ${room}: ${arg_UNPARSED_ARGUMENTS} (not installed: ${missing})")
    return()
  endif()

  set(batch "")
  set(bytes 0)
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(GET source STEM stem)
    gyre_skip_without_threads(skipped "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    if(skipped)
      continue()
    endif()
    # Also where unity builds hide that two programs of a room would have one name.
    get_property(names GLOBAL PROPERTY gyre_test_names)
    if("${room}_${stem}" IN_LIST names)
      message(FATAL_ERROR "Two tests of ${room} are called ${stem}: rename ${source}.")
    endif()
    set_property(GLOBAL APPEND PROPERTY gyre_test_names "${room}_${stem}")
    file(SIZE "${CMAKE_CURRENT_SOURCE_DIR}/${source}" size)
    math(EXPR together "${bytes} + ${size}")
    if(arg_APART OR NOT GYRE_UNITY_TESTS OR "${room}/${stem}" IN_LIST gyre_optimised_tests)
      gyre_add_test_program(
        ${room} "${source}" "${arg_BOTH_POLLERS}" "${arg_COST}" "${arg_LIBS}")
      continue()
    endif()
    if(batch AND together GREATER gyre_unity_bytes)
      gyre_add_test_program(
        ${room} "${batch}" "${arg_BOTH_POLLERS}" "${arg_COST}" "${arg_LIBS}")
      set(batch "")
      set(together ${size})
    endif()
    list(APPEND batch ${source})
    set(bytes ${together})
  endforeach()
  if(batch)
    gyre_add_test_program(${room} "${batch}" "${arg_BOTH_POLLERS}" "${arg_COST}" "${arg_LIBS}")
  endif()
endfunction()

# gyre_add_test_program(ROOM SOURCES BOTH_POLLERS COST LIBS)
#
# Makes one program of gyre_add_test: gyre_ROOM_STEM for one file, gyre_ROOM_STEM_and_more for
# several.
function(gyre_add_test_program room sources both_pollers cost libs)
  list(GET sources 0 first)
  cmake_path(GET first STEM stem)
  list(LENGTH sources count)
  set(target gyre_${room}_${stem})
  if(count GREATER 1)
    string(APPEND target _and_more)
  endif()
  add_executable(${target} ${sources})
  if(NOT TARGET gyre_${room}_tests)
    add_custom_target(gyre_${room}_tests)
  endif()
  add_dependencies(gyre_${room}_tests ${target})
  if(TARGET gyre::${room})
    target_link_libraries(${target} PRIVATE gyre::${room})
  endif()
  target_link_libraries(${target} PRIVATE ${libs} GTest::gmock GTest::gtest_main)
  set(headers gyre_test_headers)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT "${room}/${stem}" IN_LIST gyre_optimised_tests)
    target_compile_options(${target} PRIVATE -O0)
    set(headers gyre_test_headers_O0)
  endif()
  gyre_use_test_headers(${target} ${headers})
  if(count GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    gyre_allow_unity(${target})
  else()
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
  # These two checks of every access make a third of a test's code. AddressSanitizer reports a null
  # pointer as well; the library's own sources, examples and fuzz targets keep both.
  if(GYRE_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment)
  endif()
  # With AddressSanitizer most of a short test is the start of its program, and an eighth of that the
  # relocation of addresses.
  if(GYRE_SANITIZE MATCHES "address")
    target_link_options(${target} PRIVATE -no-pie)
  endif()
  # GCC 12 mistakes the halves of std::string's storage, as often as it inlines otherwise.
  target_compile_options(${target} PRIVATE
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow>")
  # With sanitizers GCC warns of values that its own instrumentation hides from it.
  if(GYRE_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()

  set(properties LABELS ${room} TIMEOUT 300)
  if(cost)
    list(APPEND properties COST ${cost})
  endif()
  if(NOT both_pollers)
    gyre_discover_tests(${target} ${room}. ${properties})
    return()
  endif()
  foreach(poller IN LISTS gyre_pollers_under_test)
    gyre_test_prefix(prefix ${room} ${poller})
    gyre_discover_tests(${target} ${prefix} ${properties} ENVIRONMENT GYRE_IO=${poller})
  endforeach()
endfunction()

# The start of its program costs a short test more than the test does itself, under a sanitizer ten
# times as much.
option(GYRE_SUITE_PROCESSES "Run each suite of tests in one process instead of each test" OFF)

# gyre_discover_tests(TARGET PREFIX [PROPERTY VALUE]…): registers the tests of a GoogleTest program, or
# its suites, which have three times as long until they are stopped.
function(gyre_discover_tests target prefix)
  if(NOT GYRE_SUITE_PROCESSES)
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
      TEST_PREFIX ${prefix} PROPERTIES ${ARGN})
    return()
  endif()
  list(JOIN ARGN " " properties)
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_${prefix}suites.cmake")
  file(GENERATE OUTPUT "${file}" CONTENT
    "include(\"${PROJECT_SOURCE_DIR}/cmake/gyre_add_suites.cmake\")
gyre_add_suites(\"$<TARGET_FILE:${target}>\" ${prefix} ${properties} TIMEOUT 900)\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()
