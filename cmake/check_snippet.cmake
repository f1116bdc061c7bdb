# SPDX-License-Identifier: Apache-2.0
# Fails unless the Markdown file PAGE shows the C++ file SNIPPET, its licence and purpose lines left
# out, as one ```cpp block.

file(READ "${PAGE}" page)
file(READ "${SNIPPET}" snippet)
string(REGEX REPLACE "^(//[^\n]*\n)+" "" snippet "${snippet}")
string(FIND "${page}" "```cpp\n${snippet}```\n" found)
if(found EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not show ${SNIPPET} as it is")
endif()
