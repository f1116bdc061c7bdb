# SPDX-License-Identifier: Apache-2.0
# Finds evpp, whose CMake package does not name its dependencies, and defines gyre_deps::evpp, with
# which #include <evpp/event_loop.h> works. Assumes that evpp is built with moodycamel's queue.

find_path(evpp_INCLUDE_DIR NAMES evpp/event_loop.h)
find_library(evpp_LIBRARY NAMES evpp_concurrentqueue evpp)
find_path(evpp_glog_INCLUDE_DIR NAMES glog/logging.h)
find_library(evpp_glog_LIBRARY NAMES glog)
find_library(evpp_event_LIBRARY NAMES event)
mark_as_advanced(evpp_INCLUDE_DIR evpp_LIBRARY evpp_glog_INCLUDE_DIR evpp_glog_LIBRARY
  evpp_event_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(evpp
  REQUIRED_VARS evpp_LIBRARY evpp_glog_LIBRARY evpp_event_LIBRARY evpp_INCLUDE_DIR
    evpp_glog_INCLUDE_DIR)

if(evpp_FOUND AND NOT TARGET gyre_deps::evpp)
  add_library(gyre_deps::evpp INTERFACE IMPORTED)
  target_include_directories(gyre_deps::evpp SYSTEM INTERFACE
    "${evpp_INCLUDE_DIR}" "${evpp_glog_INCLUDE_DIR}")
  target_compile_definitions(gyre_deps::evpp INTERFACE H_HAVE_CAMERON314_CONCURRENTQUEUE=1)
  target_link_libraries(gyre_deps::evpp INTERFACE
    "${evpp_LIBRARY}" "${evpp_glog_LIBRARY}" "${evpp_event_LIBRARY}" Threads::Threads)
endif()
