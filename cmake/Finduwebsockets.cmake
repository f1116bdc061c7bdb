# SPDX-License-Identifier: Apache-2.0
# Finds uWebSockets, which comes without a CMake package, and defines gyre_deps::uwebsockets, with
# which #include <uWebSockets/App.h> works: its `make install` puts the headers there. It needs
# uSockets, built as Findusockets.cmake assumes, and zlib.

find_path(uwebsockets_INCLUDE_DIR NAMES uWebSockets/App.h)
mark_as_advanced(uwebsockets_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(uwebsockets REQUIRED_VARS uwebsockets_INCLUDE_DIR usockets_FOUND)

if(uwebsockets_FOUND AND NOT TARGET gyre_deps::uwebsockets)
  add_library(gyre_deps::uwebsockets INTERFACE IMPORTED)
  target_include_directories(gyre_deps::uwebsockets SYSTEM INTERFACE "${uwebsockets_INCLUDE_DIR}")
  target_link_libraries(gyre_deps::uwebsockets INTERFACE gyre_deps::usockets PkgConfig::zlib)
endif()
