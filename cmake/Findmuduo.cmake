# SPDX-License-Identifier: Apache-2.0
# Finds muduo, which comes without a CMake package, and defines gyre_deps::muduo, with which
# #include <muduo/net/EventLoop.h> works.

find_path(muduo_INCLUDE_DIR NAMES muduo/net/EventLoop.h)
find_library(muduo_net_LIBRARY NAMES muduo_net)
find_library(muduo_base_LIBRARY NAMES muduo_base)
mark_as_advanced(muduo_INCLUDE_DIR muduo_net_LIBRARY muduo_base_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(muduo
  REQUIRED_VARS muduo_net_LIBRARY muduo_base_LIBRARY muduo_INCLUDE_DIR)

if(muduo_FOUND AND TARGET Boost::headers AND NOT TARGET gyre_deps::muduo)
  add_library(gyre_deps::muduo INTERFACE IMPORTED)
  target_include_directories(gyre_deps::muduo SYSTEM INTERFACE "${muduo_INCLUDE_DIR}")
  target_link_libraries(gyre_deps::muduo INTERFACE
    "${muduo_net_LIBRARY}" "${muduo_base_LIBRARY}" Boost::headers Threads::Threads)
endif()
