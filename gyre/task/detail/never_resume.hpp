// SPDX-License-Identifier: Apache-2.0
// never_resume: coroutines that the deadlock report leaves suspended for ever.
#pragma once

#include <coroutine>

namespace gyre::detail {

/// Makes resume() skip `coroutine`, whose frame must stay, as an executor may still resume it. In a
/// program with one thread. Throws std::bad_alloc.
void never_resume(std::coroutine_handle<> coroutine);
/// Whether never_resume() was called with `coroutine`. Any thread.
bool is_never_resumed(std::coroutine_handle<> coroutine) noexcept;

}  // namespace gyre::detail
