# SPDX-License-Identifier: Apache-2.0
# How gyre's libraries are linked into what: static ones by default, which programs, shared libraries and
# plug-ins may contain; shared ones with BUILD_SHARED_LIBS.

set(gyre_symbols "${CMAKE_CURRENT_LIST_DIR}/gyre_symbols.map")

# gyre_set_linkage(TARGET): for a library of a room.
function(gyre_set_linkage target)
  if(NOT DEFINED CMAKE_POSITION_INDEPENDENT_CODE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  # Nobody replaces functions of a room: they are called directly and may be inlined, as in a program.
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  # Static and shared libraries have the same objects.
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")

  # What a thread has used of gyre it gives back when it ends, which may be after dlclose(): the code stays.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_options(${target} PRIVATE "LINKER:--version-script=${gyre_symbols}" "LINKER:-z,nodelete")
    set_target_properties(${target} PROPERTIES
      VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
      LINK_DEPENDS "${gyre_symbols}"
      INSTALL_RPATH "$ORIGIN")
  endif()
  # Also in what users load, into which the headers' templates go.
  set(user "$<TARGET_PROPERTY:TYPE>")
  set(is_loaded "$<OR:$<STREQUAL:${user},MODULE_LIBRARY>,$<STREQUAL:${user},SHARED_LIBRARY>>")
  target_link_options(${target} INTERFACE "$<${is_loaded}:LINKER:-z,nodelete>")
endfunction()
