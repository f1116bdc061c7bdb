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

# gyre.hpp includes only rooms that are installed.
if(gyre_rooms_left_out)
  file(READ "${PROJECT_SOURCE_DIR}/gyre/gyre.hpp" gyre_umbrella)
  foreach(room IN ITEMS io net tls http runtime)
    if(NOT room IN_LIST gyre_rooms)
      string(REGEX REPLACE "#include <gyre/${room}/[^\n]*\n" "" gyre_umbrella "${gyre_umbrella}")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/installed/gyre.hpp" CONTENT "${gyre_umbrella}" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/installed/gyre.hpp"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gyre")
endif()

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

# The libraries and packages of each room, and of the rooms that it depends on. A static library must
# precede the libraries that it uses, so the rooms are listed from the last to the first.
list(JOIN gyre_rooms ", " gyre_room_names)
set(gyre_needs "")
foreach(room IN LISTS gyre_rooms)
  get_target_property(depends gyre_${room} GYRE_DEPENDS)
  get_target_property(packages_of_${room} gyre_${room} GYRE_PACKAGES)
  set(rooms_of_${room} ${room})
  foreach(other IN LISTS depends)
    list(APPEND rooms_of_${room} ${rooms_of_${other}})
    list(APPEND packages_of_${room} ${packages_of_${other}})
  endforeach()
  list(REMOVE_DUPLICATES rooms_of_${room})
  list(REMOVE_DUPLICATES packages_of_${room})
  string(APPEND gyre_needs "set(gyre_packages_of_${room} ${packages_of_${room}})\n")
endforeach()
foreach(replacement IN LISTS gyre_replacements)
  string(APPEND gyre_needs "set(gyre_packages_of_${replacement} ${packages_of_testing})\n")
endforeach()

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/gyreConfig.cmake.in" "${PROJECT_BINARY_DIR}/gyreConfig.cmake"
  INSTALL_DESTINATION "${gyre_cmake_dir}")
# As the ABI: see gyre_soversion.
set(gyre_compatible SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(gyre_compatible SameMinorVersion)
endif()
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/gyreConfigVersion.cmake" COMPATIBILITY ${gyre_compatible})
install(
  FILES "${PROJECT_BINARY_DIR}/gyreConfig.cmake" "${PROJECT_BINARY_DIR}/gyreConfigVersion.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/gyre_packages.cmake"
  DESTINATION "${gyre_cmake_dir}")

# The pkg-config files: gyre.pc for gyre::gyre, gyre-ROOM.pc for each room.
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

# gyre_install_pc(NAME DESCRIPTION ROOMS room… [LIBRARIES library…])
#
# Installs NAME.pc, which links the libraries of ROOMS, those that they need, and before these
# LIBRARIES.
function(gyre_install_pc name description)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "ROOMS;LIBRARIES")
  set(used "")
  set(packages "")
  foreach(room IN LISTS arg_ROOMS)
    list(APPEND used ${rooms_of_${room}})
    list(APPEND packages ${packages_of_${room}})
  endforeach()
  set(gyre_pc_libraries "")
  foreach(room IN LISTS gyre_rooms)
    get_target_property(type gyre_${room} TYPE)
    if(room IN_LIST used AND NOT type STREQUAL "INTERFACE_LIBRARY")
      string(PREPEND gyre_pc_libraries " -lgyre_${room}")
    endif()
  endforeach()
  list(REVERSE arg_LIBRARIES)
  foreach(library IN LISTS arg_LIBRARIES)
    string(PREPEND gyre_pc_libraries " -l${library}")
  endforeach()
  set(modules "")
  foreach(package IN LISTS gyre_packages)
    if(package IN_LIST packages)
      list(APPEND modules ${gyre_modules_${package}})
    endif()
  endforeach()
  list(JOIN modules ", " gyre_pc_requires)
  set(gyre_pc_name ${name})
  set(gyre_pc_description "${description}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/gyre.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${gyre_pc_dir}")
endfunction()

get_property(gyre_engines GLOBAL PROPERTY GYRE_ENGINES)
foreach(room IN LISTS gyre_rooms)
  if(NOT room STREQUAL "testing")
    gyre_install_pc(gyre-${room} "the room ${room} of gyre" ROOMS ${room})
  endif()
endforeach()
if("testing" IN_LIST gyre_rooms)
  gyre_install_pc(gyre-testing "tools for tests of programs that use gyre" ROOMS testing
    LIBRARIES gyre_testing_allocations gyre_testing_faults)
endif()
set(gyre_common_rooms ${gyre_rooms})
list(REMOVE_ITEM gyre_common_rooms testing ${gyre_engines})
gyre_install_pc(gyre "${PROJECT_DESCRIPTION}" ROOMS ${gyre_common_rooms})
