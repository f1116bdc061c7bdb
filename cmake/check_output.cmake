# SPDX-License-Identifier: Apache-2.0
# Runs PROGRAM; fails unless it ends with status 0 and its output matches OUTPUT.

execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed MATCHES "${OUTPUT}")
  message(FATAL_ERROR "${PROGRAM} printed\n${printed}\nwhich does not match ${OUTPUT}")
endif()
