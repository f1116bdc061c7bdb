# SPDX-License-Identifier: Apache-2.0
# Finds RESTinio as Debian installs it and defines gyre_deps::restinio, with which it uses the asio
# of Boost: its own package wants the stand-alone one.
include(FindPackageHandleStandardArgs)

find_path(restinio_INCLUDE_DIR NAMES restinio/all.hpp)
find_library(restinio_http_parser_LIBRARY NAMES http_parser)
find_package(fmt QUIET CONFIG)
mark_as_advanced(restinio_INCLUDE_DIR restinio_http_parser_LIBRARY)
set(restinio_needs restinio_INCLUDE_DIR restinio_http_parser_LIBRARY fmt_FOUND)
find_package_handle_standard_args(restinio REQUIRED_VARS ${restinio_needs})

if(restinio_FOUND AND TARGET gyre_deps::asio AND NOT TARGET gyre_deps::restinio)
  add_library(gyre_deps::restinio INTERFACE IMPORTED)
  target_compile_definitions(gyre_deps::restinio INTERFACE RESTINIO_USE_BOOST_ASIO=static)
  target_link_libraries(gyre_deps::restinio INTERFACE
    "${restinio_http_parser_LIBRARY}" fmt::fmt gyre_deps::asio)
endif()
