// SPDX-License-Identifier: Apache-2.0
// The event loop.
//
//     gyre::loop loop;
//     std::jthread other([&] { loop.post([&] { std::puts("on the loop"); loop.stop(); }); });
//     loop.run();
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <gyre/base/detail/calls_in_flight.hpp>
#include <gyre/base/detail/droppable_operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/inbox/fifo.hpp>
#include <gyre/exec/inbox/inbox.hpp>

namespace gyre {

/// An event loop with the inbox `Inbox`, which decides the order of tasks from several threads and
/// what posting costs: see exec/inbox/. The members it shares with event_loop do the same here
/// without a virtual call.
template <inbox::policy Inbox>
class basic_loop final : public event_loop {
 public:
  using inbox_type = Inbox;
  static constexpr inbox::ordering order = Inbox::order;

  /// Throws what make_poller() throws, std::bad_alloc.
  explicit basic_loop(loop_options options = {}) : basic_loop(options.io, options) {}
  /// With another way to wait, such as one with virtual time.
  basic_loop(loop_options options, std::unique_ptr<gyre::poller> poller)
      : event_loop(std::move(options), std::move(poller)) {}

  ~basic_loop() override {
    posts_.wait_for_end();
    discard_delayed();
    run_last_releases();
  }

  void post(operation& op) noexcept override {
    const detail::calls_in_flight::call here(posts_);
    admission counted = admit_always();
    try {
      inbox_.push(detail::run_operation{&op});
    } catch (...) {
      push_without_memory(op);
    }
    counted.keep();
    announce();
  }
  void post_discardable(operation& op, void (*discard)(operation& op) noexcept) override {
    const detail::calls_in_flight::call here(posts_);
    push(detail::run_or_discard(op, discard), admit_always());
  }
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  void post(F&& callable) {
    push(std::forward<F>(callable), admit_always());
  }
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  [[nodiscard]] bool try_post(F&& callable) {
    admission granted = admit();
    if (!granted) return false;
    push(std::forward<F>(callable), std::move(granted));
    return true;
  }
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  void dispatch(F&& callable) {
    if (in_loop_thread()) {
      std::forward<F>(callable)();
    } else {
      post(std::forward<F>(callable));
    }
  }

 private:
  basic_loop(io_interface io, loop_options& options)
      : event_loop(std::move(options), make_poller(io)) {}

  template <class F>
  void push(F&& callable, admission&& counted) {
    inbox_.push(std::forward<F>(callable));
    counted.keep();
    announce();
  }

  void push_function(move_only_function<void()> function) override {
    inbox_.push(std::move(function));
    announce();
  }
  void run_inbox(inbox::batch& batch) override { inbox_.run(batch); }
  bool inbox_ready() noexcept override { return inbox_.ready(); }
  std::size_t inbox_pending() const noexcept override { return inbox_.pending(); }

  Inbox inbox_;
  detail::calls_in_flight posts_;  // of operations
};

/// The loop to start with: total order over all producers.
using loop = basic_loop<inbox::fifo>;

}  // namespace gyre
