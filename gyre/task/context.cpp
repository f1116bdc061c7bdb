// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/context.hpp>

namespace gyre::detail {

void GYRE_BACKTRACE_TAG() noexcept {}
#if defined(_GLIBCXX_DEBUG)
void library_built_with_glibcxx_debug() noexcept {}
#else
void library_built_without_glibcxx_debug() noexcept {}
#endif

}  // namespace gyre::detail
