// SPDX-License-Identifier: Apache-2.0
// never_resume: marks coroutines that the deadlock report leaves suspended for ever.
#pragma once

#include <coroutine>

namespace gyre::detail {

/// Makes resume() skip `coroutine`. The coroutine's frame must never be freed, as an executor may
/// still try to resume it. Requires that the program has only one thread. Throws std::bad_alloc.
void never_resume(std::coroutine_handle<> coroutine);
/// Returns whether never_resume() was called with `coroutine`. May be called from any thread.
bool is_never_resumed(std::coroutine_handle<> coroutine) noexcept;

}  // namespace gyre::detail
