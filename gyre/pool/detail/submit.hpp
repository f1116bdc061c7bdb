// SPDX-License-Identifier: Apache-2.0
// submit: the entrance of a pool for callables without their types.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/pool/detail/slot_waiter.hpp>
#include <gyre/pool/detail/task_builder.hpp>
#include <gyre/pool/pool_options.hpp>

namespace gyre::detail {

[[noreturn, gnu::cold]] void throw_refused(admission_result reason);

// As thread_pool's members post(), try_post() and post_at(). Never inlined, as they use
// thread-locals.
void submit(pool_core& pool, task_builder builder, task_priority priority);
bool try_submit(pool_core& pool, task_builder builder, task_priority priority);
void submit_at(pool_core& pool, task_builder builder, steady_time when);

}  // namespace gyre::detail
