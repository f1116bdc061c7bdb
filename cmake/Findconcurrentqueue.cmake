# SPDX-License-Identifier: Apache-2.0
# Finds moodycamel::ConcurrentQueue as Debian installs it and defines gyre_deps::concurrentqueue,
# with which #include <concurrentqueue/concurrentqueue.h> works.

find_path(concurrentqueue_INCLUDE_DIR NAMES concurrentqueue/concurrentqueue.h)
mark_as_advanced(concurrentqueue_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(concurrentqueue REQUIRED_VARS concurrentqueue_INCLUDE_DIR)

if(concurrentqueue_FOUND AND NOT TARGET gyre_deps::concurrentqueue)
  add_library(gyre_deps::concurrentqueue INTERFACE IMPORTED)
  set_target_properties(gyre_deps::concurrentqueue PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${concurrentqueue_INCLUDE_DIR}")
endif()
