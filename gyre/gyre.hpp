// SPDX-License-Identifier: Apache-2.0
// All of gyre, for programs that would rather compile a little longer than choose headers. The
// headers that need an optional dependency (gyre/exec/inbox/boost_lockfree.hpp and
// moodycamel.hpp) are left out.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/endian.hpp>
#include <gyre/base/error.hpp>
#include <gyre/base/fence.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/intrusive_stack.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/base/timer_wheel.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/inbox/fifo.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_pool.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/exec/signal_set.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/epoll_poller.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/generator.hpp>
#include <gyre/task/invoke.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shared_task.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/task_local.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
