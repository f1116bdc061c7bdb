# SPDX-License-Identifier: Apache-2.0
# Install rules: libraries, headers, the CMake package and the pkg-config files.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(gyre_rooms GLOBAL PROPERTY GYRE_ROOMS)
get_property(gyre_optional_headers GLOBAL PROPERTY GYRE_OPTIONAL_HEADERS)
set(gyre_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gyre")

get_property(gyre_replacements GLOBAL PROPERTY GYRE_REPLACEMENTS)
set(gyre_installed_targets ${gyre_rooms} ${gyre_replacements})
list(TRANSFORM gyre_installed_targets PREPEND gyre_)
install(TARGETS ${gyre_installed_targets} gyre EXPORT gyre_targets FILE_SET HEADERS)

foreach(header IN LISTS gyre_optional_headers)
  cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
  cmake_path(GET relative PARENT_PATH folder)
  install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}")
endforeach()

# The values of the options of this build, for users of the installed library.
get_property(gyre_async_backtrace GLOBAL PROPERTY GYRE_ASYNC_BACKTRACE)
configure_file(
  "${CMAKE_CURRENT_LIST_DIR}/build_options.hpp.in" "${PROJECT_BINARY_DIR}/build_options.hpp.in"
  @ONLY)
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/installed/$<CONFIG>/build_options.hpp"
  INPUT "${PROJECT_BINARY_DIR}/build_options.hpp.in")
install(FILES "${PROJECT_BINARY_DIR}/installed/$<CONFIG>/build_options.hpp"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gyre/task/detail")

install(EXPORT gyre_targets
  NAMESPACE gyre:: FILE gyreTargets.cmake DESTINATION "${gyre_cmake_dir}")
list(JOIN gyre_rooms ", " gyre_room_names)
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/gyreConfig.cmake.in" "${PROJECT_BINARY_DIR}/gyreConfig.cmake"
  INSTALL_DESTINATION "${gyre_cmake_dir}")
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/gyreConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/gyreConfig.cmake" "${PROJECT_BINARY_DIR}/gyreConfigVersion.cmake"
  DESTINATION "${gyre_cmake_dir}")

# A static library must precede the libraries that it uses, so the rooms are listed from the last to
# the first.
get_property(gyre_engines GLOBAL PROPERTY GYRE_ENGINES)
set(gyre_pc_libraries "")
foreach(room IN LISTS gyre_rooms)
  if(room STREQUAL "testing" OR room IN_LIST gyre_engines)
    continue()  # has a file of its own
  endif()
  get_target_property(type gyre_${room} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    string(PREPEND gyre_pc_libraries " -lgyre_${room}")
  endif()
endforeach()
set(gyre_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE gyre_pc_prefix)
# Relative to the prefix, so that an installation can be moved, unless the paths are absolute.
foreach(dir IN ITEMS INCLUDEDIR LIBDIR)
  string(TOLOWER "gyre_pc_${dir}" variable)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(${variable} "${CMAKE_INSTALL_${dir}}")
  else()
    set(${variable} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
set(gyre_pc_nghttp2 "")
if(gyre_has_nghttp2)
  set(gyre_pc_nghttp2 ", libnghttp2 >= 1.52")
endif()
foreach(package IN ITEMS gyre gyre-testing)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in" "${PROJECT_BINARY_DIR}/${package}.pc"
    @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${package}.pc" DESTINATION "${gyre_pc_dir}")
endforeach()

# gyre-NAME.pc for each engine. `engines`, which they share, is part of each of them.
list(REMOVE_ITEM gyre_engines engines)
foreach(engine IN LISTS gyre_engines)
  set(gyre_pc_engine ${engine})
  set(gyre_pc_requires "gyre = ${PROJECT_VERSION}")
  get_target_property(depends gyre_${engine} GYRE_DEPENDS)
  foreach(other IN LISTS depends)
    if(other IN_LIST gyre_engines)
      string(APPEND gyre_pc_requires ", gyre-${other} = ${PROJECT_VERSION}")
    endif()
  endforeach()
  configure_file("${CMAKE_CURRENT_LIST_DIR}/gyre-engine.pc.in"
    "${PROJECT_BINARY_DIR}/gyre-${engine}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/gyre-${engine}.pc" DESTINATION "${gyre_pc_dir}")
endforeach()
