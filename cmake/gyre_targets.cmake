# SPDX-License-Identifier: Apache-2.0
# The functions with which a room declares what it holds: its library, its optional headers, its
# tests.

# gyre_add_room(NAME [DEPENDS room…] [HEADERS file…] [SOURCES file…] [LIBS target…])
#
# Makes the static library gyre_NAME, known as gyre::NAME; without sources it is an interface
# library. Files are relative to the room's folder. HEADERS are installed and must each compile
# alone. DEPENDS names rooms above this one; LIBS are further libraries the room needs in public.
function(gyre_add_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;HEADERS;SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gyre_add_room(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()

  set(target gyre_${name})
  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${arg_SOURCES})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(gyre::${name} ALIAS ${target})

  list(TRANSFORM arg_DEPENDS PREPEND gyre::)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS} ${arg_LIBS} Threads::Threads)
  target_compile_features(${target} ${scope} cxx_std_23)
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_sources(${target} ${scope}
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${arg_HEADERS})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL})

  set_property(GLOBAL APPEND PROPERTY GYRE_ROOMS ${name})
endfunction()

# gyre_add_optional_headers(ROOM DEPENDENCY file…)
#
# Headers of a room that only compile where gyre_deps::DEPENDENCY is installed. They are always
# installed, so that a user who has the dependency can include them; they are checked to compile
# alone where it is found.
function(gyre_add_optional_headers room dependency)
  set(target gyre_${room}_with_${dependency})
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE gyre::${room})
  if(TARGET gyre_deps::${dependency})
    target_link_libraries(${target} INTERFACE gyre_deps::${dependency})
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL})
  endif()
  target_sources(${target} INTERFACE
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${ARGN})

  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(GLOBAL APPEND PROPERTY GYRE_OPTIONAL_HEADERS ${ARGN})
endfunction()

# gyre_cache_precompiled(TARGET)
#
# Lets ccache keep a target that makes or uses a precompiled header, by the settings its manual asks
# for. They make it blind to __DATE__ and __TIME__, so they are for such targets only.
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

# gyre_test_headers: GoogleTest and what most tests include besides, precompiled once for all tests.
# It holds nothing of gyre, so it hides no missing include of gyre's own.
if(GYRE_BUILD_TESTS)
  # A target has a precompiled header only for the sake of a source.
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/gyre_test_headers.cpp" CONTENT "")
  add_library(gyre_test_headers OBJECT EXCLUDE_FROM_ALL
    "${PROJECT_BINARY_DIR}/gyre_test_headers.cpp")
  target_compile_features(gyre_test_headers PRIVATE cxx_std_23)
  target_link_libraries(gyre_test_headers PRIVATE GTest::gmock GTest::gtest_main Threads::Threads)
  target_precompile_headers(gyre_test_headers PRIVATE
    <gmock/gmock.h> <gtest/gtest.h>
    <algorithm> <array> <atomic> <chrono> <coroutine> <exception> <functional> <future> <memory>
    <optional> <stdexcept> <string> <system_error> <thread> <utility> <vector>)
  gyre_cache_precompiled(gyre_test_headers)
endif()

# What tests with BOTH_POLLERS run on, in the words of GYRE_IO.
if(NOT DEFINED gyre_pollers_under_test)
  set(gyre_pollers_under_test epoll uring)
endif()

# gyre_test_prefix(OUT ROOM POLLER): what the names of a room's tests begin with on POLLER, "ROOM."
# on epoll and "ROOM.uring." on io_uring.
function(gyre_test_prefix out room poller)
  if(poller STREQUAL "epoll")
    set(${out} ${room}. PARENT_SCOPE)
  else()
    set(${out} ${room}.${poller}. PARENT_SCOPE)
  endif()
endfunction()

# gyre_add_test(ROOM file_test.cpp… [BOTH_POLLERS] [LIBS target…])
#
# Makes of each file one GoogleTest program, linked with gyre::ROOM and LIBS, and registers its
# tests with the label ROOM and the names ROOM.Suite.Test. Those whose loops do I/O say
# BOTH_POLLERS: they run on epoll and, as ROOM.uring.Suite.Test, on io_uring. A gyre_deps:: library
# that is not installed skips the tests with one status line.
function(gyre_add_test room)
  if(NOT GYRE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "BOTH_POLLERS" "" "LIBS")

  gyre_missing_dependencies(missing ${arg_LIBS})
  if(missing)
    message(STATUS "skipped tests ${room}: ${arg_UNPARSED_ARGUMENTS} (not installed: ${missing})")
    return()
  endif()

  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(GET source STEM stem)
    set(target gyre_${room}_${stem})
    add_executable(${target} ${source})
    if(TARGET gyre::${room})
      target_link_libraries(${target} PRIVATE gyre::${room})
    endif()
    target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gmock GTest::gtest_main)
    target_precompile_headers(${target} REUSE_FROM gyre_test_headers)
    gyre_cache_precompiled(${target})

    set(discovery DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
    set(properties LABELS ${room} TIMEOUT 120)
    if(NOT arg_BOTH_POLLERS)
      gtest_discover_tests(${target} ${discovery} TEST_PREFIX ${room}. PROPERTIES ${properties})
      continue()
    endif()
    foreach(poller IN LISTS gyre_pollers_under_test)
      gyre_test_prefix(prefix ${room} ${poller})
      gtest_discover_tests(${target} ${discovery} TEST_PREFIX ${prefix}
        PROPERTIES ${properties} ENVIRONMENT GYRE_IO=${poller})
    endforeach()
  endforeach()
endfunction()
