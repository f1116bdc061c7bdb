# SPDX-License-Identifier: Apache-2.0
# Compiler-wide settings: build type, ccache, sanitizers, coverage, and the warnings of gyre's own
# targets.

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  endif()

  find_program(GYRE_CCACHE ccache)
  mark_as_advanced(GYRE_CCACHE)
  if(GYRE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${GYRE_CCACHE}")
  endif()

  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  # clangd and other tools look for the file at the root. A read-only source tree gets no link.
  if(PROJECT_BINARY_DIR STREQUAL "${PROJECT_SOURCE_DIR}/build/release" OR
     PROJECT_BINARY_DIR STREQUAL "${PROJECT_SOURCE_DIR}/build/debug")
    file(CREATE_LINK "${PROJECT_BINARY_DIR}/compile_commands.json"
      "${PROJECT_SOURCE_DIR}/compile_commands.json" SYMBOLIC RESULT ignored)
  endif()
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)

# Sanitizers and coverage change the ABI or need their runtime in every object, so they are set
# for all targets.
if(GYRE_SANITIZE)
  add_compile_options(
    "-fsanitize=${GYRE_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # This check asks the kernel through a pipe whether an object's memory is mapped, and so reports
  # every object in tests that leave no descriptors.
  add_compile_options(-fno-sanitize=vptr)
  add_link_options("-fsanitize=${GYRE_SANITIZE}")
  # Takes a quarter of the time of GNU ld for programs of that size.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    include(CheckLinkerFlag)
    check_linker_flag(CXX -fuse-ld=lld GYRE_HAS_LLD)
    if(GYRE_HAS_LLD)
      add_link_options(-fuse-ld=lld)
    endif()
  endif()
endif()
if(GYRE_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "GYRE_COVERAGE needs Clang; use the preset 'coverage'.")
  endif()
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping -fprofile-update=atomic)
  add_link_options(-fprofile-instr-generate)
endif()

# The warnings without which everything here compiles: set for the directories below, so that they
# also apply to the programs that check each header alone; never for users of gyre.
add_compile_options(-Wall -Wextra -Wconversion -Wshadow)
# GCC collects garbage only in a heap of more than 1 GB: in a smaller one it finds little.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
if(GYRE_WARNINGS_AS_ERRORS)
  add_compile_options(-Werror)
endif()
