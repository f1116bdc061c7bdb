# SPDX-License-Identifier: Apache-2.0
# Fails unless the Markdown file PAGE shows the C++ file SNIPPET as one ```cpp block, without the
# comments at its top.

file(READ "${PAGE}" page)
file(READ "${SNIPPET}" snippet)
string(REGEX REPLACE "^(//[^\n]*\n)+" "" snippet "${snippet}")
string(FIND "${page}" "```cpp\n${snippet}```\n" found)
if(found EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not show the current ${SNIPPET}: copy the file into its ```cpp block")
endif()
