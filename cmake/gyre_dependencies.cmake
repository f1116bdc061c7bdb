# SPDX-License-Identifier: Apache-2.0
# Finds the dependencies of gyre: the required ones (threads; for the rooms that are built c-ares,
# liburing, zlib, Brotli, Zstandard and OpenSSL, as PkgConfig::libcares, liburing, zlib, brotli, zstd
# and openssl) and the optional ones. An optional dependency that is found becomes an imported
# target gyre_deps::NAME; targets that list a missing gyre_deps::NAME are skipped with one status
# line.
#
#   gyre_deps::boost            Boost headers >= 1.81 (lockfree)
#   gyre_deps::asio             the same headers, ready for boost::asio
#   gyre_deps::stdexec          stdexec or, for the tests, its stand-in in tests/support/stdexec
#   gyre_deps::concurrentqueue  moodycamel's queue, included as <concurrentqueue/concurrentqueue.h>
#   gyre_deps::libuv            libuv
#   gyre_deps::libevent         libevent's core
#   gyre_deps::evhttp           libevent's HTTP server
#   gyre_deps::libevent_openssl libevent's buffers over OpenSSL
#   gyre_deps::microhttpd, restinio, drogon
#                               HTTP servers, where they are installed
#   gyre_deps::hiredis, redis_plus_plus, libpq, libpqxx, cnats
#                               clients of Redis, PostgreSQL and NATS, where they are installed
#   gyre_deps::nginx, nghttpd, h2o, go, hyper, gorilla
#                               programs, where they are installed: NAME_PROGRAM
#   gyre_deps::go_http2         go, if its net/http has HTTP/2 without TLS
#   gyre_deps::procrastinate, pgqueuer
#                               packages of Python, where tools/setup has installed them
#   gyre_deps::sqlite3          SQLite >= 3.38, for an example
#   PkgConfig::nghttp2          nghttp2 >= 1.52, without which gyre::http speaks HTTP/1.1 only
#   gyre_deps::nlohmann_json    JSON for Modern C++ >= 3.11, without which gyre::nats is left out
#   gyre_deps::tbb              oneTBB
#   gyre_deps::bs_thread_pool   BS::thread_pool 5, a single header
#   gyre_deps::muduo, evpp, usockets, uwebsockets
#                               event loop libraries, where they are installed
#   gyre_deps::benchmark        Google Benchmark
#   gyre_deps::async_simple, cppcoro, folly, libcoro, libfork, toomanycooks
#                               coroutine libraries, where their packages are installed

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
include(gyre_packages)
set(gyre_packages_of_io liburing)
set(gyre_packages_of_net libcares)
set(gyre_packages_of_tls openssl)
set(gyre_packages_of_http zlib brotli zstd)
set(gyre_needed_packages "")
foreach(room IN LISTS gyre_rooms_built)
  list(APPEND gyre_needed_packages ${gyre_packages_of_${room}})
endforeach()
gyre_find_packages(gyre_not_here PACKAGES ${gyre_needed_packages} GLOBAL)
if(gyre_not_here)
  list(JOIN gyre_not_here ", " gyre_not_here)
  message(FATAL_ERROR "gyre needs packages that pkg-config does not find: ${gyre_not_here}. "
    "A build without some of its rooms needs fewer: see cmake/gyre_rooms.cmake")
endif()

set(gyre_has_nghttp2 0)
if("http" IN_LIST gyre_rooms_built)
  gyre_find_packages(gyre_not_here PACKAGES nghttp2 GLOBAL)
  if(gyre_not_here)
    message(STATUS "gyre::http has no HTTP/2, which needs ${gyre_not_here}")
  else()
    set(gyre_has_nghttp2 1)
  endif()
endif()

# Header-only: linked for its include path, and only while gyre is built.
find_package(nlohmann_json 3.11 QUIET CONFIG)
if(TARGET nlohmann_json::nlohmann_json AND NOT TARGET gyre_deps::nlohmann_json)
  add_library(gyre_deps::nlohmann_json INTERFACE IMPORTED GLOBAL)
  target_link_libraries(gyre_deps::nlohmann_json INTERFACE nlohmann_json::nlohmann_json)
endif()

if(GYRE_BUILD_EXAMPLES)
  pkg_check_modules(sqlite3 QUIET IMPORTED_TARGET GLOBAL sqlite3>=3.38)
  if(TARGET PkgConfig::sqlite3 AND NOT TARGET gyre_deps::sqlite3)
    add_library(gyre_deps::sqlite3 ALIAS PkgConfig::sqlite3)
  endif()
endif()

if(GYRE_BUILD_TESTS OR GYRE_BUILD_LAB)
  find_package(Boost 1.81 QUIET CONFIG COMPONENTS headers)
  if(TARGET Boost::headers AND NOT TARGET gyre_deps::boost)
    add_library(gyre_deps::boost INTERFACE IMPORTED)
    target_link_libraries(gyre_deps::boost INTERFACE Boost::headers)
    add_library(gyre_deps::asio INTERFACE IMPORTED)
    target_link_libraries(gyre_deps::asio INTERFACE Boost::headers Threads::Threads)
  endif()

  find_package(concurrentqueue QUIET MODULE)
endif()

if(GYRE_BUILD_TESTS)
  find_package(stdexec QUIET CONFIG)
  if(NOT TARGET gyre_deps::stdexec)
    add_library(gyre_deps::stdexec INTERFACE IMPORTED)
    if(TARGET STDEXEC::stdexec)
      target_link_libraries(gyre_deps::stdexec INTERFACE STDEXEC::stdexec)
    else()
      target_include_directories(gyre_deps::stdexec INTERFACE
        "${PROJECT_SOURCE_DIR}/tests/support/stdexec")
    endif()
  endif()
endif()

if(GYRE_BUILD_LAB)
  foreach(name IN ITEMS libuv libevent_core libevent_extra libevent_openssl libmicrohttpd
      hiredis libpq libpqxx libnats)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET GLOBAL ${name})
  endforeach()
  if(TARGET PkgConfig::hiredis AND NOT TARGET gyre_deps::hiredis)
    # Without its definitions, with which precompiled headers could not be used.
    add_library(gyre_deps::hiredis INTERFACE IMPORTED)
    target_include_directories(gyre_deps::hiredis INTERFACE ${hiredis_INCLUDE_DIRS})
    target_link_libraries(gyre_deps::hiredis INTERFACE ${hiredis_LINK_LIBRARIES})
  endif()
  foreach(name IN ITEMS libpq libpqxx)
    if(TARGET PkgConfig::${name} AND NOT TARGET gyre_deps::${name})
      add_library(gyre_deps::${name} ALIAS PkgConfig::${name})
    endif()
  endforeach()
  if(TARGET PkgConfig::libnats AND NOT TARGET gyre_deps::cnats)
    add_library(gyre_deps::cnats ALIAS PkgConfig::libnats)
  endif()
  if(TARGET PkgConfig::libuv AND NOT TARGET gyre_deps::libuv)
    add_library(gyre_deps::libuv ALIAS PkgConfig::libuv)
  endif()
  if(TARGET PkgConfig::libevent_core AND NOT TARGET gyre_deps::libevent)
    add_library(gyre_deps::libevent ALIAS PkgConfig::libevent_core)
  endif()
  if(TARGET PkgConfig::libevent_extra AND NOT TARGET gyre_deps::evhttp)
    add_library(gyre_deps::evhttp INTERFACE IMPORTED)
    target_link_libraries(gyre_deps::evhttp INTERFACE PkgConfig::libevent_extra gyre_deps::libevent)
  endif()
  if(TARGET PkgConfig::libevent_openssl AND NOT TARGET gyre_deps::libevent_openssl)
    add_library(gyre_deps::libevent_openssl INTERFACE IMPORTED)
    target_link_libraries(gyre_deps::libevent_openssl INTERFACE
      PkgConfig::libevent_openssl gyre_deps::libevent)
  endif()
  if(TARGET PkgConfig::libmicrohttpd AND NOT TARGET gyre_deps::microhttpd)
    add_library(gyre_deps::microhttpd ALIAS PkgConfig::libmicrohttpd)
  endif()

  # gyre_find_program(NAME FILE): gyre_deps::NAME stands for an installed program, at NAME_PROGRAM.
  function(gyre_find_program name file)
    find_program(${name}_PROGRAM NAMES ${file} PATHS /usr/sbin)
    mark_as_advanced(${name}_PROGRAM)
    if(${name}_PROGRAM AND NOT TARGET gyre_deps::${name})
      add_library(gyre_deps::${name} INTERFACE IMPORTED GLOBAL)
    endif()
  endfunction()
  gyre_find_program(nginx nginx)
  gyre_find_program(nghttpd nghttpd)
  gyre_find_program(h2o h2o)
  gyre_find_program(go go)
  if(TARGET gyre_deps::go)
    execute_process(COMMAND "${go_PROGRAM}" version OUTPUT_VARIABLE go_version ERROR_QUIET)
    if(go_version MATCHES "go1\\.([0-9]+)" AND CMAKE_MATCH_1 GREATER_EQUAL 24)
      add_library(gyre_deps::go_http2 INTERFACE IMPORTED GLOBAL)
    endif()
  endif()
  gyre_find_program(hyper gyre_lab_hyper_server)
  gyre_find_program(gorilla gyre_lab_gorilla_server)

  # gyre_find_python_package(NAME): gyre_deps::NAME stands for a package in .venv.
  function(gyre_find_python_package name)
    # .venv may be made while CMake configures: each build looks again.
    file(GLOB found CONFIGURE_DEPENDS
      "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/${name}/__init__.py")
    if(found AND NOT TARGET gyre_deps::${name})
      add_library(gyre_deps::${name} INTERFACE IMPORTED GLOBAL)
    endif()
  endfunction()
  gyre_find_python_package(procrastinate)
  gyre_find_python_package(pgqueuer)

  # gyre_find_peer(NAME PACKAGE TARGET): gyre_deps::NAME is the TARGET of an installed PACKAGE. The
  # language version is set, as a package may test the compiler's coroutines.
  function(gyre_find_peer name package target)
    set(CMAKE_CXX_STANDARD 23)
    find_package(${package} QUIET CONFIG GLOBAL)
    if(TARGET ${target} AND NOT TARGET gyre_deps::${name})
      add_library(gyre_deps::${name} INTERFACE IMPORTED GLOBAL)
      target_link_libraries(gyre_deps::${name} INTERFACE ${target})
    endif()
  endfunction()
  gyre_find_peer(benchmark benchmark benchmark::benchmark)
  gyre_find_peer(tbb TBB TBB::tbb)
  gyre_find_peer(async_simple async_simple async_simple::async_simple_header_only)
  gyre_find_peer(cppcoro cppcoro cppcoro::cppcoro)
  gyre_find_peer(drogon Drogon Drogon::Drogon)
  gyre_find_peer(folly folly Folly::folly)
  gyre_find_peer(libfork libfork libfork::libfork)
  gyre_find_peer(toomanycooks TooManyCooks TooManyCooks::TooManyCooks)
  pkg_check_modules(libcoro QUIET IMPORTED_TARGET GLOBAL libcoro)
  if(TARGET PkgConfig::libcoro AND NOT TARGET gyre_deps::libcoro)
    add_library(gyre_deps::libcoro ALIAS PkgConfig::libcoro)
  endif()
  find_package(bs_thread_pool QUIET MODULE)
  find_package(muduo QUIET MODULE)
  find_package(redis_plus_plus QUIET MODULE)
  find_package(restinio QUIET MODULE)
  find_package(evpp QUIET MODULE)
  find_package(usockets QUIET MODULE)
  find_package(uwebsockets QUIET MODULE)
endif()

if(GYRE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# gyre_missing_dependencies(OUT LIBRARY…): the gyre_deps:: names among LIBRARY… that were not found.
function(gyre_missing_dependencies out)
  set(missing "")
  foreach(library IN LISTS ARGN)
    if(library MATCHES "^gyre_deps::" AND NOT TARGET ${library})
      list(APPEND missing ${library})
    endif()
  endforeach()
  set(${out} "${missing}" PARENT_SCOPE)
endfunction()
