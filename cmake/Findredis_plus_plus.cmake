# SPDX-License-Identifier: Apache-2.0
# Finds redis-plus-plus by its own CMake package, if it was built with the asynchronous interface on
# libuv, and defines gyre_deps::redis_plus_plus. Its target does not link libuv by itself.
include(FindPackageHandleStandardArgs)

find_package(redis++ QUIET CONFIG)
set(redis_plus_plus_TARGET "")
foreach(target IN ITEMS redis++::redis++_static redis++::redis++)
  if(TARGET ${target} AND NOT redis_plus_plus_TARGET)
    set(redis_plus_plus_TARGET ${target})
  endif()
endforeach()
if(redis_plus_plus_TARGET)
  get_target_property(redis_plus_plus_headers ${redis_plus_plus_TARGET} INTERFACE_INCLUDE_DIRECTORIES)
endif()
find_path(redis_plus_plus_ASYNC_INCLUDE_DIR NAMES sw/redis++/async_redis++.h
  HINTS ${redis_plus_plus_headers})
mark_as_advanced(redis_plus_plus_ASYNC_INCLUDE_DIR)
find_package_handle_standard_args(redis_plus_plus
  REQUIRED_VARS redis_plus_plus_TARGET redis_plus_plus_ASYNC_INCLUDE_DIR)

if(redis_plus_plus_FOUND AND TARGET gyre_deps::libuv AND NOT TARGET gyre_deps::redis_plus_plus)
  add_library(gyre_deps::redis_plus_plus INTERFACE IMPORTED)
  target_link_libraries(gyre_deps::redis_plus_plus INTERFACE
    ${redis_plus_plus_TARGET} gyre_deps::libuv)
endif()
