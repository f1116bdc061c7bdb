# SPDX-License-Identifier: Apache-2.0
# Finds uSockets, which comes without a CMake package, and defines gyre_deps::usockets, with which
# #include <libusockets.h> works. Assumes that uSockets is built with epoll and without TLS, as its
# Makefile does by default; the Makefile names the archive uSockets.a.

find_path(usockets_INCLUDE_DIR NAMES libusockets.h)
find_library(usockets_LIBRARY NAMES uSockets uSockets.a usockets)
mark_as_advanced(usockets_INCLUDE_DIR usockets_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(usockets REQUIRED_VARS usockets_LIBRARY usockets_INCLUDE_DIR)

if(usockets_FOUND AND NOT TARGET gyre_deps::usockets)
  add_library(gyre_deps::usockets INTERFACE IMPORTED)
  target_include_directories(gyre_deps::usockets SYSTEM INTERFACE "${usockets_INCLUDE_DIR}")
  target_link_libraries(gyre_deps::usockets INTERFACE "${usockets_LIBRARY}")
endif()
