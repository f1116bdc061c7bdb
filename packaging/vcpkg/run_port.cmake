# SPDX-License-Identifier: Apache-2.0
# Runs the port in PORT_FOLDER where vcpkg is missing: builds its Release in BUILD with the system's
# libraries, and installs it in FOLDER/installed. The functions below do what those of vcpkg do, as
# far as a port of gyre uses them, for the features in FEATURES. OPTIONS are passed to CMake.

cmake_minimum_required(VERSION 3.25)
set(PORT gyre)
set(CURRENT_PACKAGES_DIR "${FOLDER}/installed")
if(NOT FEATURES)
  set(FEATURES core io net tls http)
endif()
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/debug/lib")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" OUT_FEATURE_OPTIONS FEATURES)
  set(options "")
  while(arg_FEATURES)
    list(POP_FRONT arg_FEATURES feature option)
    if(feature IN_LIST FEATURES)
      list(APPEND options "-D${option}=ON")
    else()
      list(APPEND options "-D${option}=OFF")
    endif()
  endwhile()
  set(${arg_OUT_FEATURE_OPTIONS} "${options}" PARENT_SCOPE)
endfunction()

function(vcpkg_find_acquire_program name)
  find_program(program NAMES pkg-config pkgconf REQUIRED)
  set(${name} "${program}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH "OPTIONS;MAYBE_UNUSED_VARIABLES")
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${BUILD}" ${OPTIONS} ${arg_OPTIONS}
    -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}")
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --build "${BUILD}" --target install)
endfunction()

# Moves the CMake package to share/gyre, whose files then find the prefix from there.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" CONFIG_PATH "")
  set(share "${CURRENT_PACKAGES_DIR}/share/${PORT}")
  file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share")
  file(RENAME "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}" "${share}")
  file(GLOB files "${share}/*.cmake")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text
      "${text}")
    # The prefix is two folders above now, not three.
    string(REGEX REPLACE
      "(get_filename_component\\(_IMPORT_PREFIX \"\\\${_IMPORT_PREFIX}\" PATH\\)\n)+"
      "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\nget_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n"
      text "${text}")
    file(WRITE "${file}" "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  file(COPY_FILE "${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright")
endfunction()

# The port finds its sources relative to the file that is read, which include() sets.
include("${PORT_FOLDER}/portfile.cmake")
foreach(file IN ITEMS share/gyre/gyreConfig.cmake share/gyre/copyright share/gyre/usage)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${file}")
    message(FATAL_ERROR "the port has not installed ${file}")
  endif()
endforeach()
