// SPDX-License-Identifier: Apache-2.0
// loop: the event loop of a program.
//
//     gyre::loop loop;
//     std::jthread other([&] { loop.post([&] { std::puts("on the loop"); loop.stop(); }); });
//     loop.run();
#pragma once

#include <gyre/base/detail/calls_in_flight.hpp>
#include <gyre/base/detail/droppable_operation.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/inbox/fifo.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/posting.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gyre {

/// An event loop with the inbox `Inbox`, which decides the order of tasks from several threads and
/// the cost of posting: see exec/inbox/. Posting to a basic_loop is inlined; through an event_loop
/// it is a virtual call. Thread-safety, Lifetime, Errors: as event_loop; Complexity: as posting.
template <inbox::policy Inbox>
class basic_loop final : public event_loop, public posting<basic_loop<Inbox>> {
 public:
  using posting<basic_loop>::post;
  using posting<basic_loop>::try_post;
  using posting<basic_loop>::dispatch;
  using inbox_type = Inbox;
  static constexpr inbox::ordering order = Inbox::order;

  /// Throws std::bad_alloc, and errors of make_poller().
  explicit basic_loop(loop_options options = {}) : basic_loop(options.io, options) {}
  /// Uses `poller`, not null, instead of make_poller(): for example one with virtual time. Ignores
  /// `options.io`.
  basic_loop(loop_options options, std::unique_ptr<gyre::poller> poller)
      : event_loop(std::move(options), std::move(poller)) {}

  ~basic_loop() override {
    posts_.wait_for_end();
    discard_delayed();
    run_last_releases();
  }

  void post(operation& op) noexcept override {
    // posts_ need not count this call: the loop cannot be destroyed by another thread while it
    // runs.
    if (is_run_here()) {
      push_operation(op);
      return wake_own_thread();
    }
    const detail::calls_in_flight::call call(posts_);
    push_operation(op);
    wake_if_asleep();
  }
  void post_all(intrusive_queue<operation>& operations, std::size_t count) noexcept override {
    operation* const first = operations.front();
    if (count < 2 || is_limited()) return executor::post_all(operations, count);
    const detail::calls_in_flight::call call(posts_);
    chain().add_pending(count - 1);
    try {
      inbox_.push(begin_chain{this, first});
      operations = {};
    } catch (...) {
      chain().subtract_pending(count - 1);
      while (operation* const op = operations.pop_front()) push_without_memory(*op);
    }
    wake_if_asleep();
  }
  void post_discardable(operation& op, void (*discard)(operation& op) noexcept) override {
    const detail::calls_in_flight::call call(posts_);
    post(detail::run_or_discard(op, discard));
  }

 private:
  basic_loop(io_interface io, loop_options& options)
      : event_loop(std::move(options), make_poller(io)) {}

  friend posting<basic_loop>;

  void push_operation(operation& op) noexcept {
    inbox_slot slot = take_slot();
    try {
      inbox_.push(detail::run_operation{&op});
    } catch (...) {
      push_without_memory(op);
    }
    static_cast<void>(slot.release());
  }

  template <class F>
  void push(F&& callable) {
    inbox_.push(std::forward<F>(callable));
    wake_if_asleep();
  }

  void push_erased(const inbox::detail::erased_task& task) override {
    if constexpr (inbox::detail::takes_erased_tasks<Inbox>) {
      inbox_.push_erased(task);
    } else {
      inbox_.push(task.function());
    }
    wake_if_asleep();
  }
  void run_inbox(inbox::batch& batch) override { inbox_.run(batch); }
  bool inbox_ready() noexcept override { return inbox_.ready(); }
  std::size_t inbox_pending() const noexcept override { return inbox_.pending(); }
  std::uint64_t next_task_code() noexcept override {
    if constexpr (requires { inbox_.next_task_code(); }) {
      return inbox_.next_task_code();
    } else {
      return 0;
    }
  }

  Inbox inbox_;
  detail::calls_in_flight posts_;  // the calls that the destructor waits for
};

/// The default loop: a total order over all producers.
using loop = basic_loop<inbox::fifo>;

}  // namespace gyre
