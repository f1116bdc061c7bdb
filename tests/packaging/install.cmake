# SPDX-License-Identifier: Apache-2.0
# Installs the build tree BUILD into the fresh prefix PREFIX, everything under WORK being new.

file(REMOVE_RECURSE "${WORK}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${PREFIX}"
  COMMAND_ERROR_IS_FATAL ANY)
