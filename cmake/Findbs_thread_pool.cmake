# SPDX-License-Identifier: Apache-2.0
# Finds the single header of BS::thread_pool (B. Shoshany), which comes without a CMake package, and
# defines gyre_deps::bs_thread_pool, with which #include <BS_thread_pool.hpp> works.

find_path(bs_thread_pool_INCLUDE_DIR NAMES BS_thread_pool.hpp PATH_SUFFIXES bshoshany-thread-pool)
mark_as_advanced(bs_thread_pool_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(bs_thread_pool REQUIRED_VARS bs_thread_pool_INCLUDE_DIR)

if(bs_thread_pool_FOUND AND NOT TARGET gyre_deps::bs_thread_pool)
  add_library(gyre_deps::bs_thread_pool INTERFACE IMPORTED)
  set_target_properties(gyre_deps::bs_thread_pool PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${bs_thread_pool_INCLUDE_DIR}")
endif()
