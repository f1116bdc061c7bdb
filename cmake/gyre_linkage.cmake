# SPDX-License-Identifier: Apache-2.0
# Linkage of gyre's libraries: static by default, to be linked into programs, shared libraries and
# plug-ins; shared with BUILD_SHARED_LIBS.

set(gyre_symbols "${CMAKE_CURRENT_LIST_DIR}/gyre_symbols.map")

# Before 1.0 each minor version may change the ABI, afterwards each major one: docs/versions.md.
set(gyre_soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND gyre_soversion .${PROJECT_VERSION_MINOR})
endif()

# gyre_set_linkage(TARGET): for a library of a room.
function(gyre_set_linkage target)
  if(NOT DEFINED CMAKE_POSITION_INDEPENDENT_CODE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  # Functions of a room are never interposed: they are called directly and may be inlined.
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  # Static and shared libraries have the same objects.
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")

  # The code stays loaded: a thread releases gyre's resources when it ends, maybe after dlclose().
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_options(${target} PRIVATE "LINKER:--version-script=${gyre_symbols}" "LINKER:-z,nodelete")
    set_target_properties(${target} PROPERTIES
      VERSION ${PROJECT_VERSION}
      SOVERSION ${gyre_soversion}
      LINK_DEPENDS "${gyre_symbols}"
      INSTALL_RPATH "$ORIGIN")
  endif()
  # The same for shared libraries and plug-ins of users, which contain templates of gyre's headers.
  set(user "$<TARGET_PROPERTY:TYPE>")
  set(is_loaded "$<OR:$<STREQUAL:${user},MODULE_LIBRARY>,$<STREQUAL:${user},SHARED_LIBRARY>>")
  target_link_options(${target} INTERFACE "$<${is_loaded}:LINKER:-z,nodelete>")
endfunction()
