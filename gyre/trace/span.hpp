// SPDX-License-Identifier: Apache-2.0
// span: a named part of the program in the flight recorder, which may last over awaits and threads.
//
//     gyre::task<int> resize(gyre::thread_pool& pool, int size) {
//       const gyre::trace::span span("resize");
//       co_return co_await gyre::on(pool, compute(size));
//     }
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/recorder.hpp>
#include <gyre/trace/label.hpp>

namespace gyre::trace {

/// Records the time from its construction to its destruction. As a local object of a coroutine it
/// follows the coroutine: the span includes its waits, and may end on another thread.
///
/// Thread-safety: any thread, one at a time.
/// Complexity: an event at each end, some 15 ns each; allocates nothing.
class span {
 public:
  explicit span(label name) noexcept : name_(name), begin_(detail::begin_now()) {
    if (begin_ != 0) {
      detail::record_moment(detail::event_kind::span_begin, detail::address_of(name_.c_str()),
                            begin_);
    }
  }
  span(const span&) = delete;
  span& operator=(const span&) = delete;
  ~span() {
    detail::record_since(begin_, detail::event_kind::span, detail::address_of(name_.c_str()),
                         begin_);
  }

 private:
  const label name_;
  const gyre::detail::tick_count begin_;
};

}  // namespace gyre::trace
