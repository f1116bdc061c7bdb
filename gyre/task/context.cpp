// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/context.hpp>

namespace gyre::detail {

#if GYRE_ASYNC_BACKTRACE
void library_built_with_gyre_async_backtrace_1() noexcept {}
#else
void library_built_with_gyre_async_backtrace_0() noexcept {}
#endif
#if defined(_GLIBCXX_DEBUG)
void library_built_with_glibcxx_debug() noexcept {}
#else
void library_built_without_glibcxx_debug() noexcept {}
#endif

}  // namespace gyre::detail
